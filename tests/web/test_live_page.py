"""The page of a running job: it follows, survives its server, and shows when the run is gone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Site, Watched, until
from tests.web.made_runs import MadeRun, exploding

REFUSED = "ERR_CONNECTION_REFUSED"
CUT = ("ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
EVENTS = 100_000
FAKE_EVENTS = """() => {
    window.EventSource = class extends EventTarget {
        constructor() { super(); window.fakeEvents = this; }
        close() {}
    };
}"""
SEND = """async (count) => {
    for (let place = 0; place < count; place += 1) {
        const seen = { state: "running", steps: 10, active_s: 1, now_s: 2, rate: 1 };
        const data = JSON.stringify(seen);
        window.fakeEvents.dispatchEvent(new MessageEvent("step", { data }));
        if (place % 500 === 0) await new Promise((done) => setTimeout(done, 10));
    }
    await new Promise((done) => setTimeout(done, 500));
}"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Site]:
    """A server over a folder of this test."""
    served = Site(tmp_path / "runs")
    served.runs.mkdir()
    served.start()
    yield served
    served.stop()


@pytest.fixture
def followed(browser: Any, own: Site) -> Iterator[Watched]:
    """A page of that server."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    yield Watched(context.new_page(), own.origin)
    context.close()


FAKE_NOTICES = """
window.notices = [];
window.Notification = class {
    static permission = "default";
    static async requestPermission() { return "granted"; }
    constructor(title, options) { window.notices.push(`${title} | ${options.body}`); }
};
"""


def test_a_new_finding_is_a_desktop_notice_if_that_is_allowed(own: Site, followed: Watched) -> None:
    run = MadeRun(own.runs / "job")
    run.train([1.0] * 10)
    run.find(exploding(4, "blocks.2.weight"))
    page = followed.page
    page.add_init_script(FAKE_NOTICES)
    page.goto(own.url("#/overview?run=job"))
    page.get_by_role("heading", level=1, name=re.compile("Exploding gradient")).wait_for()
    page.get_by_role("button", name="Notify me").click()
    page.get_by_role("button", name="Notify me").wait_for(state="detached")
    run.find(exploding(7))
    until(lambda: page.evaluate("window.notices.length") > 0)
    (notice,) = page.evaluate("window.notices")  # none of the finding that was there before
    assert notice.startswith("Exploding gradient since step 7 | job: gradient norm")
    run.end()
    followed.assert_quiet()


def test_steps_and_findings_appear_as_they_come(own: Site, followed: Watched) -> None:
    run = MadeRun(own.runs / "job")
    run.train([1.0] * 10)
    run.find()
    page = followed.page
    page.goto(own.url("#/overview?run=job"))
    page.get_by_text("step 10", exact=True).wait_for()
    run.train([0.5] * 7)
    page.get_by_text("step 17", exact=True).wait_for()
    page.get_by_role("img", name=re.compile("Loss, steps 0 to 16")).wait_for()
    run.find(exploding(12))
    page.get_by_role("heading", level=1, name=re.compile("Exploding gradient")).wait_for()
    run.end()
    page.get_by_text("finished").first.wait_for()
    followed.assert_quiet()


def test_the_page_goes_on_when_its_server_was_killed_and_is_back(
    own: Site, followed: Watched
) -> None:
    run = MadeRun(own.runs / "job")
    run.train([1.0] * 10)
    page = followed.page
    page.goto(own.url("#/overview?run=job"))
    page.get_by_text("step 10", exact=True).wait_for()
    own.stop()
    page.get_by_text("The server does not answer").first.wait_for()
    run.train([0.5] * 5)
    own.start()
    page.get_by_text("step 15", exact=True).wait_for()
    page.get_by_text("The server does not answer").wait_for(state="detached")
    assert followed.errors == followed.elsewhere == []
    told = [text for text in followed.console if REFUSED not in text]
    assert [text for text in told if not any(cut in text for cut in CUT)] == []
    run.close()


def test_a_run_that_is_removed_while_open_has_its_sentence(own: Site, followed: Watched) -> None:
    run = MadeRun(own.runs / "job")
    run.train([1.0] * 3)
    run.close()
    page = followed.page
    page.goto(own.url("#/overview?run=job"))
    page.get_by_text("step 3", exact=True).wait_for()
    shutil.rmtree(own.runs / "job")
    page.get_by_role("alert").get_by_text(re.compile("removed")).first.wait_for()
    assert followed.errors == followed.elsewhere == []


def test_a_job_without_a_step_is_waited_for(own: Site, followed: Watched) -> None:
    run = MadeRun(own.runs / "young")
    page = followed.page
    page.goto(own.url("#/overview?run=young"))
    page.get_by_role("heading", name="Waiting for the first step").wait_for()
    run.close()
    followed.assert_quiet()


def test_an_empty_folder_says_how_to_make_a_run(own: Site, followed: Watched) -> None:
    followed.page.goto(own.url())
    followed.page.get_by_text("mothtrap run train.py").wait_for()
    followed.assert_quiet()


def test_a_finding_is_acknowledged_with_two_keys_and_a_job_is_not_stopped_by_one_click(
    own: Site, followed: Watched
) -> None:
    run = MadeRun(own.runs / "job")
    run.train([1.0] * 30)
    run.find(exploding(12))
    page = followed.page
    page.goto(own.url("#/findings?run=job"))
    page.get_by_role("button", name="Acknowledge").press("Enter")
    page.get_by_text(re.compile("^acknowledged")).wait_for()
    page.get_by_role("button", name="Mute for 8 hours").click()
    page.get_by_text(re.compile("^muted.*until")).wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop the job now?").wait_for()
    assert not list((own.runs / "job").glob("control/*"))
    run.close()
    followed.assert_quiet()


@pytest.mark.full  # 100,000 events take half a minute
def test_memory_of_the_page_stays_flat_over_many_events(own: Site, followed: Watched) -> None:
    run = MadeRun(own.runs / "job")
    run.train([1.0] * 10)
    run.close()
    page = followed.page
    page.add_init_script(f"({FAKE_EVENTS})()")
    page.goto(own.url("#/curves?run=job"))
    page.get_by_role("img", name=re.compile(r"loss \(")).wait_for()
    inspector = page.context.new_cdp_session(page)

    def heap_bytes() -> int:
        inspector.send("HeapProfiler.collectGarbage")
        return int(inspector.send("Runtime.getHeapUsage")["usedSize"])

    page.evaluate(SEND, EVENTS // 20)
    before = heap_bytes()
    page.evaluate(SEND, EVENTS)
    assert heap_bytes() - before < 2_000_000
    followed.assert_quiet()
