"""Small things on the page that a reader trips over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.web.conftest import Site, Watched, until
from tests.web.made_runs import MadeRun, exploding

from mothtrap.core.findings import Severity

RECORD_TEXTS = """
window.drawnTexts = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.drawnTexts.push(text);
    return draw.call(this, text, ...place);
};
"""
LONG = "word " * 200


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over a run with two findings at one step and a long line of output."""
    runs = tmp_path_factory.mktemp("small") / "runs"
    run = MadeRun(runs / "two")
    run.train([1.0 + 0.01 * step for step in range(2000)])
    warning = msgspec.structs.replace(
        exploding(1000), code="OPT602", severity=Severity.WARNING, fingerprint="f2"
    )
    note = msgspec.structs.replace(warning, code="OPT603", step=1002, fingerprint="f3")
    run.find(exploding(1000), warning, note)
    run.print_lines(f"{LONG}\nshort\n")
    run.end()
    silent = MadeRun(runs / "silent")
    silent.train([1.0])
    silent.end()
    served = Site(runs)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Any, own: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 900, "height": 500})
    seen = Watched(context.new_page(), own.origin)
    seen.page.add_init_script(RECORD_TEXTS)
    seen.page.goto(own.url("#/overview?run=two"))
    seen.page.get_by_role("img", name="Loss").wait_for()
    yield seen.page
    context.close()
    seen.assert_quiet()


def test_findings_of_one_step_and_its_neighbors_are_one_sign_in_a_chart(page: Any) -> None:
    until(lambda: "✖" in page.evaluate("window.drawnTexts"))
    assert "▲" not in page.evaluate("window.drawnTexts")


def test_the_last_label_of_the_steps_is_not_cut(page: Any) -> None:
    """The canvas ends 34 pixels after the axis: half of a label like 20,000 needs 20."""
    canvas, axis = (page.locator(".u-wrap canvas"), page.locator(".u-over"))
    right = [each.first.bounding_box() for each in (canvas, axis)]
    ends = [box["x"] + box["width"] for box in right]
    assert ends[0] - ends[1] >= 30


def test_the_list_of_keys_opens_at_its_beginning(page: Any) -> None:
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Go to Runs").wait_for()
    assert dialog.evaluate("(box) => box.scrollHeight > box.clientHeight")
    assert dialog.evaluate("(box) => box.scrollTop") == 0


def test_output_wraps_and_is_saved(page: Any, own: Site, tmp_path: Path) -> None:
    page.goto(own.url("#/logs?run=two"))
    page.get_by_role("checkbox", name="Wrap lines").check()
    text = page.locator("pre.wrapped")
    text.wait_for()
    assert text.evaluate("(box) => box.scrollWidth <= box.clientWidth")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    download.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_text() == f"{LONG}\nshort\n"


def test_commands_in_a_notice_are_code(page: Any, own: Site) -> None:
    page.goto(own.url("#/logs?run=silent"))
    notice = page.get_by_text("No output was stored")
    notice.wait_for()
    assert "`" not in notice.inner_text()
    assert notice.locator("code").first.inner_text() == "mothtrap run"
