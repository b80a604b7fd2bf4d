"""Runs of the kinds probe and serve are marked as such, and the view Probe shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.behavior.asking import labels, people, sure
from tests.web.conftest import Site
from tests.web.looking import assert_sound

pytest.importorskip("sklearn")

import mothtrap
from mothtrap.behavior.assertions import in_range

X = people(1200)


def turned(rows: Any) -> np.ndarray:
    """A model that is wrong where kind is c."""
    right = sure(rows)
    return np.where((rows.kind == "c").to_numpy()[:, None], right[:, ::-1], right)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over a probe run and a serve run."""
    runs = tmp_path_factory.mktemp("asked") / "runs"
    mothtrap.probe(
        turned,
        X,
        labels(X, 0.1),
        select=["BEH201", "BEH207"],
        pictures=["residuals", "grad_cam"],
        name="asked",
        runs_dir=str(runs),
    )
    predict = mothtrap.asserted(
        lambda rows: rows[:, 0], [in_range(0, 1)], name="served", runs_dir=str(runs)
    )
    predict(np.array([[0.5], [2.0], [0.1]]))
    predict.close()
    served = Site(runs)
    served.start()
    yield served
    served.stop()


def test_the_answers_say_how_much_was_asked(asked: Site) -> None:
    about = asked.json("/api/run?run=asked")
    assert about["size"] == "probed 1,200 rows"
    assert (about["steps"], about["unit"], about["probed"]["judged"]) == (1200, "row", 1200)
    about = asked.json("/api/run?run=served")
    assert about["size"] == "checked 3 predictions"
    assert about["served"]["failing"] == 1
    sizes = {row["name"]: row["size"] for row in asked.json("/api/runs")["page"]["rows"]}
    assert sizes == {"asked": "probed 1,200 rows", "served": "checked 3 predictions"}


def test_the_view_shows_findings_pictures_and_what_is_missing(browser: Any, asked: Site) -> None:
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(asked.url("#/probe?run=asked"))
    page.get_by_text("Probed 1,200 rows with 5 columns.").wait_for()
    page.get_by_text("probed 1,200 rows", exact=True).wait_for()
    found = page.get_by_role("listitem").filter(has_text="BEH201 Weak segment")
    text = str(found.text_content())
    assert "where kind = c" in text
    assert "rows)" in text
    page.get_by_role("heading", name="Residuals").wait_for()
    page.frame_locator("iframe").get_by_role("img").wait_for()
    page.wait_for_function("document.querySelector('iframe').style.height")
    drawn = page.frame_locator("iframe").get_by_role("img").bounding_box()
    assert abs(page.locator("iframe").bounding_box()["height"] - drawn["height"]) < 4
    page.get_by_text(
        "picture grad_cam was not drawn: the model is not a PyTorch or Keras network"
    ).wait_for()
    page.get_by_text("residuals in order: ").wait_for()  # a probe that needs times
    if folder := os.environ.get("PICTURES"):
        page.frame_locator("iframe").first.get_by_role("img").wait_for()
        page.screenshot(path=str(Path(folder) / "probe.png"), full_page=True)
    page.goto(asked.url("#/overview?run=asked"))
    page.get_by_role("heading", name="Weak segment").first.wait_for()
    text = str(page.locator("main").text_content())
    assert "made no" not in text
    page.goto(asked.url("#/probe?run=served"))
    page.get_by_text("Checked 3 predictions of").wait_for()
    page.goto(asked.url("#/runs"))
    page.get_by_role("cell", name="checked 3 predictions").wait_for()
    assert errors == []
    page.close()


def test_the_tab_is_there_for_probe_and_serve_runs_only(
    browser: Any, asked: Site, site: Site
) -> None:
    page = browser.new_page()
    page.goto(asked.url("#/overview?run=asked"))
    page.get_by_role("link", name="Probe", exact=True).wait_for()
    page.goto(site.url("#/overview?run=healthy"))
    page.get_by_role("link", name="Overview", exact=True).wait_for()
    page.get_by_role("heading", level=1).first.wait_for()
    assert page.get_by_role("link", name="Probe", exact=True).count() == 0
    page.close()


def test_views_of_a_probe_are_accessible_and_fit_a_phone(browser: Any, asked: Site) -> None:
    views = ("probe", "overview", "findings", "record")
    places = [f"#/{view}?run={run}" for run in ("asked", "served") for view in views]
    assert_sound(browser, asked, [*places, "#/runs"], ready="main h1, main h2")
