"""Histograms of all tensors on one page: what the server answers, and the page in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest
from tests.reader.runs import raw
from tests.web.conftest import Site, Watched, until
from tests.web.deep_runs import MAPS, counts, kept
from tests.web.looking import assert_sound
from tests.web.made_runs import MadeRun

from mothtrap.core.records import StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.exponents import BINS, count_exponents
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store.worker_log import WorkerLog
from mothtrap.web.histograms import MOST_STEPS

LAYERS = 30
KINDS = ("weight", "gradient")
STEPS = (0, 10, 20, 50)


def asked(site: Site, run: str, *tensors: str) -> dict[str, Any]:
    query = urlencode({"run": run, "tensor": tensors}, doseq=True)
    found: dict[str, Any] = site.json(f"/api/histograms?{query}")["tensors"]
    return found


def test_a_histogram_has_the_share_of_every_power(site: Site) -> None:
    found = asked(site, "values", "gradient:fc.weight", "weight:none", "gradient:1")
    assert set(found) == {"gradient:fc.weight"}
    each = found["gradient:fc.weight"]
    assert each["steps"] == list(range(12))
    assert (each["low"], each["high"], each["signed"]) == (21, 42, True)
    for step, row, bad in zip(each["steps"], each["shares"], each["bad"], strict=True):
        count_2B = counts(step)
        whole = count_2B.sum() + 40 + 3
        expected = [*(count_2B[0, ::-1] / whole), 40 / whole, *(count_2B[1] / whole)]
        np.testing.assert_allclose(row, expected, atol=1e-5)
        assert bad == pytest.approx(3 / whole)


def test_captured_values_are_counted(site: Site) -> None:
    each = asked(site, "values", "weight:conv.weight", MAPS)
    weight = each["weight:conv.weight"]
    assert weight["steps"] == [0, 8]
    expected = count_exponents(kept()["weight:conv.weight"])[1] / 216
    np.testing.assert_allclose(weight["shares"][0][BINS + 1 :], expected, atol=1e-5)
    assert each[MAPS]["steps"] == [0, 8]  # the evaluation after the training is left out


def test_the_names_say_which_tensors_have_any(site: Site) -> None:
    found = site.json("/api/names?run=values")["histograms"]
    assert "fc.weight" in found["gradient"]
    assert "conv.weight" in found["weight"]
    assert "metric" not in found
    assert site.json("/api/names?run=deep")["histograms"] == {}
    assert "histograms" in site.json("/api/run?run=values")["views"]
    assert "histograms" not in site.json("/api/run?run=deep")["views"]


def write(folder: Path, layers: int, steps: tuple[int, ...] = STEPS, *, bad: int = -1) -> None:
    """Write a run with counts of the weights and gradients of its layers at some steps.

    Args:
        folder: of the worker.
        layers: their number.
        steps: captured steps.
        bad: layer whose gradient is not finite at the last step.
    """
    names = [(kind, f"blocks.{n}.weight") for kind in KINDS for n in range(layers)]
    infos = [
        TensorInfo(kind=kind, name=name, module=name.rpartition(".")[0], shape=(30, 50))
        for kind, name in names
    ]
    infos += [
        TensorInfo(kind="metric", name=f"exponents({kind}:{name})", shape=(2, BINS), dtype="int64")
        for kind, name in names
    ]
    log = WorkerLog(folder)
    for step in steps:
        summary_TF = np.full((len(names), WIDTH), np.nan)
        for field in ("nan", "inf", "zero"):
            summary_TF[:, COLUMN[field]] = 0
        if step == steps[-1] and bad >= 0:
            summary_TF[layers + bad, COLUMN["nan"]] = 9
        blocks = [(len(names) + n, counts(min(step, 20))) for n in range(len(names))]
        log.append(
            [
                StepRecord(
                    key=StepKey(step=step, mode_step=step),
                    wall_s=1e9 + step,
                    tensor_T=np.arange(len(names), dtype=np.uint32),
                    summary_TF=summary_TF,
                    defined=tuple(enumerate(infos)) if step == steps[0] else (),
                    raw=(raw(*blocks),),
                )
            ]
        )
    log.close()


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over a deep run, one with fewer layers, and one with many captured steps."""
    runs = tmp_path_factory.mktemp("histograms") / "runs"
    many = tuple(range(0, 400, 4))
    for name, layers, steps in (("deep", LAYERS, STEPS), ("small", 2, STEPS), ("long", 1, many)):
        run = MadeRun(runs / name, created_s=1.0)
        write(run.folder, layers, steps, bad=0 if name == "deep" else -1)
        run.find()
        run.end(closes_worker=False)
    served = Site(runs)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Any, charts: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), charts.origin)
    yield seen.page
    context.close()
    seen.assert_quiet()


def test_a_chart_shows_the_first_and_the_last_of_many_steps(charts: Site) -> None:
    steps = asked(charts, "long", "weight:blocks.0.weight")["weight:blocks.0.weight"]["steps"]
    assert len(steps) == MOST_STEPS
    assert (steps[0], steps[-1]) == (0, 396)


def test_charts_are_read_when_they_come_into_sight(page: Any, charts: Site) -> None:
    read: list[str] = []
    page.on(
        "request",
        lambda request: (
            read.extend(parse_qs(urlsplit(request.url).query)["tensor"])
            if "/api/histograms" in request.url
            else None
        ),
    )
    page.goto(charts.url("#/histograms?run=deep"))
    page.get_by_text("Weights", exact=True).wait_for()
    page.get_by_role(
        "img", name=re.compile("^Histograms of weight:blocks.0.weight at 4")
    ).wait_for()
    assert page.locator("figure").count() == 2 * LAYERS
    assert "gradient:blocks.29.weight" not in read
    last = page.locator("figure").last
    last.scroll_into_view_if_needed()
    last.get_by_role("img").wait_for()
    assert len(read) == len(set(read))


def test_a_chart_names_its_axes_and_marks_what_is_not_finite(page: Any, charts: Site) -> None:
    page.goto(charts.url("#/histograms?run=deep&query=blocks.0."))
    chart = page.get_by_role("img", name=re.compile("gradient.* up to 50, some values not finite"))
    chart.wait_for()
    texts = [text.strip() for text in chart.locator("text").all_text_contents()]
    assert texts == ["0", "10", "20", "✖", "50", "−2^10", "0", "2^10", "step", "value"]
    assert page.locator("figure").count() == 2


def test_tensors_are_grouped_by_kind_or_layer_and_found_by_name(page: Any, charts: Site) -> None:
    page.goto(charts.url("#/histograms?run=deep"))
    page.locator("summary", has_text="Gradients 30").wait_for()
    page.get_by_label("grouped by").select_option("layer")
    page.locator("summary", has_text="blocks.3 2").wait_for()
    page.get_by_label("Search").first.fill("blocks.*9.w")
    until(lambda: page.locator("figure").count() == 6)  # of layers 9, 19 and 29


def test_a_click_opens_the_tensor(page: Any, charts: Site) -> None:
    page.goto(charts.url("#/histograms?run=small"))
    page.get_by_role("img", name=re.compile("gradient:blocks.1.weight")).click()
    page.get_by_role("heading", name="blocks.1.weight gradient").wait_for()
    page.get_by_role("heading", name="Distribution over steps").wait_for()


def test_runs_stand_side_by_side(page: Any, charts: Site) -> None:
    page.goto(charts.url("#/compare?run=deep&with=small"))
    page.get_by_role("link", name="Histograms side by side").click()
    first = page.locator('[data-tensor="weight:blocks.1.weight"]')
    first.get_by_role("img").nth(1).wait_for()
    assert first.locator("small").all_inner_texts() == ["weight", "deep", "small"]
    other = page.locator('[data-tensor="weight:blocks.2.weight"]')
    other.get_by_text("not captured").wait_for()
    page.get_by_role("option", name="long").click()
    first.get_by_text("not captured").wait_for()


def test_the_page_is_accessible_and_fits_a_phone(browser: Any, charts: Site) -> None:
    places = ("#/histograms?run=small", "#/histograms?run=small&with=deep&group=layer")
    assert_sound(browser, charts, places, ready=".ridges svg")
