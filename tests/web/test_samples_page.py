"""Samples and Compare in a real browser, and requests to a job."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.web.conftest import Site, Watched
from tests.web.deep_runs import REPLAY
from tests.web.test_page import HOSTILE_RUN, open_view

RUNS = ("healthy", "nan", "crashed", "live", "empty", "wide", "ranks", HOSTILE_RUN)


def test_every_kind_of_run_says_what_is_known_of_its_samples(watched: Watched, site: Site) -> None:
    for run in RUNS:
        page = open_view(watched, site, "samples", run)
        page.get_by_text("The samples of this step are", exact=False).wait_for()
        page.get_by_text("The state of this step was not stored.", exact=False).wait_for()
    page = open_view(watched, site, "samples", "nan")
    page.get_by_role("button", name="First bad step: 40").click()
    assert page.get_by_label("step", exact=True).input_value() == "40"


def test_samples_of_a_step_where_else_they_were_and_its_replay(
    watched: Watched, site: Site
) -> None:
    page = open_view(watched, site, "samples", "values", "&at=8")
    table = page.get_by_role("region", name="Samples")
    table.get_by_role("row", name=re.compile("2 ✖ bad row.*26.*img026.png.*ImageFolder")).wait_for()
    page.get_by_text("Step 8, replayed: bit-identical to the run").wait_for()
    for said in ("head.softmax", "torch.log", "2 (img026.png)"):
        page.get_by_role("listitem").filter(has_text=said).first.wait_for()
    page.get_by_role(
        "button", name=re.compile(r"^Copy replay: mothtrap replay .* --step 8")
    ).wait_for()
    page.get_by_text("mothtrap ui --allow-replay").wait_for()
    page.get_by_role("button", name="Other steps with img000.png").click()
    page.get_by_text("in 12 steps:", exact=False).wait_for()
    page.get_by_role("button", name="3", exact=True).click()
    page.get_by_text("img010.png").wait_for()
    page.locator("body").press("]")
    page.get_by_text("img013.png").wait_for()
    page.get_by_text("Stored steps:", exact=False).wait_for()
    page.get_by_role("button", name="8", exact=True).first.click()
    page.get_by_text("img025.png").wait_for()


def test_a_replay_that_is_allowed_is_started_by_two_clicks(watched: Watched, site: Site) -> None:
    asked: list[Any] = []

    def replay(route: Any) -> None:
        asked.append((route.request.headers["x-mothtrap"], route.request.post_data_json))
        route.fulfill(json=REPLAY)

    def allowed(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(json={**json.loads(answer.body()), "runs_replays": True})

    watched.page.route("**/api/samples?*", allowed)
    watched.page.route("**/api/control/replay?*", replay)
    page = open_view(watched, site, "samples", "values", "&at=8")
    page.get_by_role("button", name="Replay here").click()
    page.get_by_role("button", name="Execute the script of the run?").click()
    page.get_by_role("button", name="Replay here").wait_for()
    page.unroute_all(behavior="ignoreErrors")  # an answer may still be on its way
    assert asked == [("1", {"step": 8})]


def test_every_kind_of_run_is_compared(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "compare", "healthy")
    page.get_by_text("Select a run on the left to compare with healthy.").wait_for()
    ours = page.locator("[role=option]")  # an option of a select may have the same name
    for other in RUNS[1:]:
        page.get_by_role("option", name=other, exact=True).and_(ours).click()
        page.get_by_role("heading", name=re.compile(f"^{re.escape(other)}: ")).wait_for()
        page.get_by_role("heading", name="Findings that differ").wait_for()
        page.get_by_role("option", name=other, exact=True).and_(ours).click()
    page = open_view(watched, site, "runs", more="tick=healthy&tick=nan")
    page.get_by_role("link", name="Compare selected").click()
    page.get_by_role("heading", name="nan: diverges at step 0").wait_for()


def test_two_runs_diverge_and_their_ratio_is_a_map(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "compare", "healthy", "&with=nan")
    page.get_by_role("heading", name="nan: diverges at step 0").wait_for()
    page.get_by_role("link", name="step 40").wait_for()
    page.get_by_role("img", name=re.compile("train.loss of 2 runs")).wait_for()
    canvas = page.get_by_role(
        "img", name=re.compile("Ratio of l2 of 3 gradients, healthy over nan")
    )
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    page.get_by_role("status").get_by_text(re.compile(r"blocks\.\d\.weight at step")).wait_for()
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.get_by_text("Select a run on the left").wait_for()


def test_stopping_is_asked_agreed_and_ended(watched: Watched, site: Site) -> None:
    page = watched.page
    page.route(
        "**/api/control/stop?*", lambda route: route.fulfill(json={"message": "stops before 51"})
    )
    page.route(
        "**/api/control/snapshot?*",
        lambda route: route.fulfill(json={"message": "step 50 was stored and can be replayed"}),
    )
    open_view(watched, site, "overview", "live")
    page.get_by_role("button", name="Snapshot").click()
    page.get_by_text("step 50 was stored and can be replayed").first.wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the job now?").click()
    page.get_by_text("stop: requested ✔ agreed ✔ stops before 51 …").wait_for()
