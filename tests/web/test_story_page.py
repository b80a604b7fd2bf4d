"""The page tells the whole story of a run: its traceback, its guard, and unobserved data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.web.conftest import Site, Watched, until
from tests.web.made_runs import MadeRun, exploding

from mothtrap.core.facts.captures import Unwatched
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.findings import Severity

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 7, in <module>
    shards[20]
IndexError: list index out of range
"""
COUNT_POINTS = """
window.points = 0;
const move = CanvasRenderingContext2D.prototype.arc;
CanvasRenderingContext2D.prototype.arc = function (...place) {
    window.points += 1;
    return move.call(this, ...place);
};
window.signs = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.signs.push(text);
    return draw.call(this, text, ...place);
};
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over a run that crashed, whose guard left out steps, and that has gaps."""
    runs = tmp_path_factory.mktemp("story") / "runs"
    run = MadeRun(runs / "gone", created_s=1.0)
    for watched, gap in ((10, 10), (1, 9), (60, 0)):
        run.train([1.0] * watched)
        run.steps += gap
    run.find(msgspec.structs.replace(exploding(), severity=Severity.WARNING))
    run.end(
        1,
        StepGuarded(step=30, action="skipped", fault="loss", reason="the loss is NaN"),
        Unwatched(step=10, last_step=19, seconds=0.1),
        Unwatched(step=21, last_step=29, seconds=0.1),
        told={
            "exception": "IndexError: list index out of range",
            "location": "train.py:7",
            "traceback": TRACEBACK,
        },
    )
    whole = MadeRun(runs / "whole", created_s=2.0)
    whole.train([1.0] * 70)
    whole.find()
    whole.end()
    served = Site(runs)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Any, told: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), told.origin)
    seen.page.add_init_script(COUNT_POINTS)
    seen.page.goto(told.url("#/overview?run=gone"))
    yield seen.page
    context.close()
    seen.assert_quiet()


def test_a_crash_shows_its_traceback(page: Any) -> None:
    region = page.get_by_role("region", name="Traceback")
    region.get_by_text("shards[20]").wait_for()
    assert region.inner_text().strip() == TRACEBACK.strip()


def test_a_crash_opens_the_verdict_and_a_warning_follows(page: Any) -> None:
    """A warning was once the headline, and the exception a line below its fix."""
    verdict = page.get_by_role("region", name="Verdict")
    verdict.get_by_role("heading", name="The job crashed after").wait_for()
    text = verdict.inner_text()
    assert text.index("IndexError at train.py:7") < text.index("Exploding gradient")
    assert text.count("Exploding gradient") == 1


def test_a_crash_has_its_sign_in_the_list_of_runs(page: Any) -> None:
    page.evaluate("location.hash = '#/runs'")
    row = page.locator("tr", has=page.get_by_role("link", name="gone", exact=True))
    row.get_by_text("The job ended with IndexError").wait_for()
    assert row.locator(".told .crashed").count() == 1


def test_a_crash_is_marked_in_the_chart(page: Any) -> None:
    until(lambda: "‼" in page.evaluate("window.signs"), 20)


def test_the_title_of_the_tab_shows_that_something_is_wrong(page: Any) -> None:
    until(lambda: page.title().startswith("‼ gone"))
    page.evaluate("location.hash = '#/overview?run=whole'")
    until(lambda: page.title().startswith("whole"))


def test_the_verdict_says_what_the_guard_did(page: Any) -> None:
    verdict = page.get_by_role("region", name="Verdict")
    verdict.get_by_text("skipped by the guard: 1 step (30): the loss is NaN").wait_for()


def test_the_header_says_how_many_steps_were_watched(page: Any) -> None:
    page.get_by_text("watched 71 of 90", exact=True).wait_for()
    verdict = page.get_by_role("region", name="Verdict")
    verdict.get_by_text("Watched 71 of 90 steps", exact=False).wait_for()


def test_a_point_between_two_gaps_is_joined_to_nothing(page: Any) -> None:
    """The runs have 70 points, too many to mark each; in one of them step 20 is alone."""
    until(lambda: page.evaluate("window.points") > 0)
    page.evaluate("window.points = 0")
    page.goto(page.url.replace("gone", "whole"))
    page.get_by_role("heading", name="Nothing wrong was found in 70 steps").wait_for()
    page.get_by_role("img", name="Loss").wait_for()
    assert page.evaluate("window.points") == 0


def test_the_colors_of_the_page_are_chosen_and_kept(page: Any) -> None:
    color = "getComputedStyle(document.documentElement).getPropertyValue('--page').trim()"
    light_page, dark_page = "#fbfaf8", "#151618"
    assert page.evaluate(color) == light_page
    page.get_by_role("button", name="Colors: system").click()
    page.get_by_role("button", name="Colors: light").click()
    page.get_by_role("button", name="Colors: dark").wait_for()
    until(lambda: page.evaluate(color) == dark_page)
    page.reload()
    page.get_by_role("button", name="Colors: dark").click()
    page.get_by_role("button", name="Colors: system").wait_for()
    until(lambda: page.evaluate(color) == light_page)
