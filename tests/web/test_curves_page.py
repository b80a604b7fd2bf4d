"""The view Curves: a chart for each unit, pins, smoothing, the machine, and saved charts."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Site, Watched, until
from tests.web.evidence_runs import STEPS, make_evidence
from tests.web.made_runs import MadeRun
from tests.web.test_api import series

from mothtrap.core.png import SIGNATURE

LOSS = "train/loss:train.py:4 SGD"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    runs = tmp_path_factory.mktemp("curves") / "runs"
    make_evidence(runs)
    site = Site(runs)
    site.start()
    yield site
    site.stop()


@pytest.fixture
def page(browser: Any, served: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), served.origin)
    seen.page.goto(served.url("#/curves?run=quiet"))
    seen.page.get_by_role("heading", name="loss", exact=False).first.wait_for()
    yield seen.page
    context.close()
    seen.assert_quiet()


def units(page: Any) -> list[str]:
    found = page.locator(".unit h2").all_inner_texts()
    return [text.replace("☆", "").replace("★", "").strip() for text in found]


def test_each_unit_has_a_chart_of_its_own(page: Any) -> None:
    until(lambda: units(page) == ["loss", "lr", "machine, %"])


def test_a_pinned_chart_comes_first_in_every_run(page: Any, served: Site) -> None:
    page.get_by_role("button", name="Pin lr").click()
    until(lambda: units(page)[0] == "lr")
    page.goto(f"{served.origin}/#/curves?run=vanish")
    page.get_by_role("button", name="Pin lr").wait_for()
    until(lambda: units(page)[:2] == ["lr", "loss"])


def test_smoothing_is_part_of_the_address(page: Any) -> None:
    slider = page.get_by_label("smoothing")
    slider.focus()
    page.keyboard.press("End")
    until(lambda: "smooth=0.99" in page.url)
    page.keyboard.press("Home")
    until(lambda: "smooth" not in page.url)


def test_the_machine_is_a_curve_over_steps(served: Site) -> None:
    assert served.json("/api/names?run=quiet")["machine"] == ["machine/cpu_percent/"]
    _, (cpu,) = series(served, "quiet", "machine/cpu_percent/")
    assert cpu["step"].tolist() == [0, 10, 20, 30, 40, 50]
    assert cpu["last"].tolist() == [50, 51, 52, 53, 54, 55]


def test_a_chart_is_saved_as_csv_svg_and_png(page: Any, tmp_path: Path) -> None:
    chart = page.locator(".unit").first
    chart.get_by_role("img", name=re.compile(r"loss \(")).wait_for()
    for kind in ("CSV", "SVG", "PNG"):
        with page.expect_download() as download:
            chart.get_by_role("button", name=kind).click()
        assert download.value.suggested_filename.endswith(f".{kind.lower()}")
        download.value.save_as(tmp_path / kind)
    rows = list(csv.DictReader((tmp_path / "CSV").read_text().splitlines()))
    assert [int(row["step"]) for row in rows] == list(range(STEPS))
    assert {row["curve"] for row in rows} == {LOSS}
    assert float(rows[0]["last"]) == pytest.approx(2.28)
    picture = ElementTree.parse(tmp_path / "SVG").getroot()
    lines = [
        path.get("d", "").count("L") for path in picture.iter("{http://www.w3.org/2000/svg}path")
    ]
    assert max(lines) == STEPS - 1
    assert (tmp_path / "PNG").read_bytes().startswith(SIGNATURE)


def test_a_zoom_without_values_says_so_and_the_training_comes_first(
    browser: Any, tmp_path: Path
) -> None:
    """An empty chart had axes from 0 to 1, and the evaluation had the color of the training."""
    run = MadeRun(tmp_path / "runs" / "both", created_s=1.0)
    run.boost([3.0, 2.0, 1.0] * 4, loss="train.py:4 SGD", evaluated="loss", batches=3)
    run.find()
    run.end()
    site = Site(tmp_path / "runs")
    site.start()
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), site.origin)
    seen.page.goto(site.url("#/curves?run=both"))
    legend = seen.page.locator(".legend").first
    legend.wait_for()
    assert legend.inner_text().index("loss") < legend.inner_text().index("evaluation loss")
    seen.page.get_by_text("lowest to highest batch of an evaluation").wait_for()
    assert list(series(site, "both", "eval/loss:test")[1][0]["last"]) == [2.0]
    seen.page.evaluate("location.hash = '#/curves?run=both&name=eval/loss:test&from=5&to=9'")
    seen.page.get_by_text("No value was recorded in these steps.").wait_for()
    context.close()
    site.stop()
    seen.assert_quiet()
