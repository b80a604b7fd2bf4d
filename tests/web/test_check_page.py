"""The view Check of a run of `mothtrap check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.test_command import checked
from tests.web.conftest import Site
from tests.web.looking import assert_sound


@pytest.fixture(scope="module")
def site_of_a_check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over the check of a script."""
    folder = tmp_path_factory.mktemp("checked")
    outcome = checked(folder, "splits.py", options=("--select", "PRE101,PRE501,PRE102"))
    assert outcome.returncode == 0, outcome.stderr
    served = Site(Path(folder) / "runs")
    served.start()
    yield served
    served.stop()


def test_the_answer_has_results_stages_and_layers(site_of_a_check: Site) -> None:
    found = site_of_a_check.json("/api/checked?run=seen")
    assert any(text.startswith("every layer is used") for text in found["passed"])
    assert any(text.startswith("PRE102 sees_the_future: ") for text in found["undecided"])
    titles = [stage["title"] for stage in found["stages"]]
    assert titles[0].startswith("Subset ")
    assert titles[-1].startswith("loss ")
    assert len(found["rows"]) == len(titles)


def test_the_view_shows_the_way_of_the_data(browser: Any, site_of_a_check: Site) -> None:
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(site_of_a_check.url("#/check?run=seen"))
    page.get_by_role("heading", name="Data flow").wait_for()
    assert "Subset" in str(page.locator("ol.way").text_content())
    page.get_by_role("columnheader", name="multiplications").wait_for()
    page.get_by_role("link", name="Check", exact=True).wait_for()
    assert errors == []
    page.close()


def test_views_of_a_check_are_accessible_and_fit_a_phone(
    browser: Any, site_of_a_check: Site
) -> None:
    places = [f"#/{view}?run=seen" for view in ("check", "overview", "findings", "record")]
    assert_sound(browser, site_of_a_check, places, ready="main h1, main h2")
