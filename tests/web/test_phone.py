"""The page on a phone, 390 pixels wide: nothing overflows, and the verdict is in sight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.web.conftest import Site, Watched

WIDTH = 390
VIEWS = (
    "runs?tick=healthy&tick=nan",
    "overview?run=nan",
    "overview?run=crashed",
    "overview?run=values",
    "findings?run=nan",
    "findings?run=wide",
    "curves?run=nan",
    "layers?run=deep",
    "tensors?run=values",
    "tensors?run=values&tensor=activation:attn",
    "samples?run=values&at=8",
    "compare?run=healthy&with=nan",
    "record?run=nan",
    "logs?run=healthy",
)


@pytest.fixture
def phone(browser: Any, site: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": WIDTH, "height": 844})
    seen = Watched(context.new_page(), site.origin)
    yield seen.page
    context.close()
    seen.assert_quiet()


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_the_screen(phone: Any, site: Site, view: str) -> None:
    phone.goto(site.url(f"#/{view}"))
    phone.locator(
        "main .verdict, main table, main .chart, main .detail, main .heat, main .rows"
    ).first.wait_for()
    phone.get_by_text("Reading", exact=False).first.wait_for(state="detached")
    wide = phone.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((each) =>
            each.getBoundingClientRect().right > innerWidth + 1
            && !each.closest(".scroll, nav, .uplot")
        ).slice(0, 3).map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert phone.evaluate("document.scrollingElement.scrollWidth") <= WIDTH, wide
    assert wide == []


def test_the_verdict_of_each_run_is_in_sight(phone: Any, site: Site) -> None:
    phone.goto(site.url("#/runs"))
    verdict = phone.get_by_text("Exploding gradient in blocks.1.weight", exact=False).first
    verdict.wait_for()
    box = verdict.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= WIDTH


def test_the_heatmap_has_most_of_the_width(phone: Any, site: Site) -> None:
    phone.goto(site.url("#/layers?run=deep"))
    plane = phone.locator(".plane canvas")
    plane.wait_for()
    assert plane.bounding_box()["width"] >= 0.6 * WIDTH


def test_the_first_chart_is_at_the_top(phone: Any, site: Site) -> None:
    phone.goto(site.url("#/curves?run=nan"))
    chart = phone.locator(".chart").first
    chart.wait_for()
    assert chart.bounding_box()["y"] < 450
