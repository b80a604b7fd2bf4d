"""The page on a phone, 390 pixels wide: nothing overflows, and the verdict is visible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.web.conftest import Site, Watched
from tests.web.evidence_runs import make_evidence
from tests.web.looking import PHONE, assert_narrow

from mothtrap.cli import main
from mothtrap.store import layout
from mothtrap.store.machine_log import MachineLog, Reading

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
    "histograms?run=values",
    "samples?run=values&at=8",
    "compare?run=healthy&with=nan",
    "record?run=nan",
    "logs?run=healthy",
)


@pytest.fixture
def phone(browser: Any, site: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": PHONE, "height": 844})
    seen = Watched(context.new_page(), site.origin)
    yield seen.page
    context.close()
    seen.assert_quiet()


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_the_screen(phone: Any, site: Site, view: str) -> None:
    phone.goto(site.url(f"#/{view}"))
    phone.locator(
        "main .verdict, main table, main .chart, main .detail, main .heat, main .rows, main .ridges"
    ).first.wait_for()
    phone.get_by_text("Reading", exact=False).first.wait_for(state="detached")
    assert_narrow(phone)


def test_the_report_of_a_run_is_as_narrow(phone: Any, tmp_path: Path) -> None:
    make_evidence(tmp_path / "runs")
    log = MachineLog(layout.attempt_folder(tmp_path / "runs" / "vanish", 1))
    log.append([Reading(1e9 + second, "network_received", "", 64.4e6) for second in range(6)])
    log.close()
    target = tmp_path / "report.html"
    words = ["report", str(tmp_path / "runs" / "vanish"), "-o", str(target)]
    assert CliRunner().invoke(main, words).exit_code == 0
    phone.set_content(target.read_text(encoding="utf-8"))
    phone.get_by_role("heading", name="Machine").wait_for()
    assert phone.evaluate("document.scrollingElement.scrollWidth") <= PHONE


def test_the_verdict_of_each_run_is_in_sight(phone: Any, site: Site) -> None:
    phone.goto(site.url("#/runs"))
    verdict = phone.get_by_text("Exploding gradient in blocks.1.weight", exact=False).first
    verdict.wait_for()
    box = verdict.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE


def test_the_heatmap_has_most_of_the_width(phone: Any, site: Site) -> None:
    phone.goto(site.url("#/layers?run=deep"))
    plane = phone.locator(".plane canvas")
    plane.wait_for()
    assert plane.bounding_box()["width"] >= 0.6 * PHONE


def test_the_first_chart_is_at_the_top(phone: Any, site: Site) -> None:
    phone.goto(site.url("#/curves?run=nan"))
    chart = phone.locator(".chart").first
    chart.wait_for()
    assert chart.bounding_box()["y"] < 450
