"""Layers in a real browser: every kind of run, colors of cells, mouse and keyboard."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from tests.web.conftest import Site, Watched
from tests.web.deep_runs import STEPS
from tests.web.test_matrix import cells
from tests.web.test_page import HOSTILE_RUN, open_view

CIVIDIS = np.array([[0, 34, 78], [59, 77, 107], [124, 123, 120], [185, 172, 112], [254, 232, 56]])
NOTHING, ZERO = [250, 249, 246], [150, 146, 138]
NOT_FINITE = ([214, 30, 190], [255, 190, 246])
SAID = {
    "healthy": r"l2 of 3 gradients in 4 rows, steps 0 to 119, from \S+ to 7\. Arrow",
    "nan": "l2 of 3 gradients in 4 rows, steps 0 to 59, .*cells not finite",
    "crashed": "^l2.*steps 0 to 29",
    "live": "^l2.*steps 0 to 49",
    "wide": "l2 of 10,000 gradients in 1 rows",
    "ranks": "l2 of 38 gradients",
    HOSTILE_RUN: "l2 of 3 gradients",
}
PIXELS = """([rows, columns, height]) => {
    const canvas = document.querySelector(".plane canvas");
    const context = canvas.getContext("2d");
    const scale = devicePixelRatio || 1;
    return rows.map((row) => columns.map((column) => {
        const x = Math.floor((column + 0.5) * canvas.width / canvas.dataset.columns);
        const y = Math.floor((row + 0.5) * height * scale);
        return Array.from(context.getImageData(x, y, 1, 1).data.slice(0, 3));
    }));
}"""


def color(code: int) -> list[list[int]]:
    """The colors that a cell of a code may have."""
    if code == 255:
        return list(map(list, NOT_FINITE))
    if code < 2:
        return [NOTHING if code == 0 else ZERO]
    at = (code - 2) / 252 * 4
    low = min(int(at), 3)
    mixed = CIVIDIS[low] + (CIVIDIS[low + 1] - CIVIDIS[low]) * (at - low)
    return [np.floor(mixed + 0.5).astype(int).tolist()]


def heat(page: Any, said: str = "") -> Any:
    """The canvas, once it has content."""
    found = page.get_by_role("img", name=re.compile(said or "l2 of"))
    found.wait_for()
    return found


def test_every_kind_of_run_has_its_map(watched: Watched, site: Site) -> None:
    for run, said in SAID.items():
        page = open_view(watched, site, "layers", run)
        heat(page, said)
        assert page.locator("main img").count() == 0
        assert page.locator(".name-row").count() < 60
    page = open_view(watched, site, "layers", "empty")
    page.get_by_text("mothtrap run --capture everything train.py").wait_for()


def test_each_cell_has_the_color_of_its_number(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "layers", "deep")
    heat(page)
    head, codes = cells(site)
    rows = list(range(0, 28, 3))
    columns = list(range(0, STEPS, 4))
    drawn = page.evaluate(PIXELS, [rows, columns, 18])
    for row, colors in zip(rows, drawn, strict=True):
        for column, found in zip(columns, colors, strict=True):
            assert found in color(codes[row, column]), (head["rows"][row], column)
    page.locator(".heat").evaluate("each => { each.scrollTop = 1e6; }")
    page.get_by_role("button", name="head.weight").wait_for()
    last = page.evaluate(PIXELS, [[27], list(range(STEPS)), 18])[0]
    assert [found in color(code) for found, code in zip(last, codes[-1], strict=True)] == [
        True
    ] * STEPS


def test_pointing_shows_numbers_dragging_zooms_and_a_click_opens_the_tensor(
    watched: Watched, site: Site
) -> None:
    page = open_view(watched, site, "layers", "nan")
    canvas = heat(page)
    box = canvas.bounding_box()

    def at(step: int, row: int) -> tuple[float, float]:
        return box["x"] + (step + 0.5) * box["width"] / 60, box["y"] + 18 * row + 9

    page.mouse.move(*at(41, 2))
    panel = page.get_by_role("complementary", name="Cell")
    panel.get_by_role("heading", name="Step 41").wait_for()
    panel.get_by_text("10,000").first.wait_for()
    page.mouse.move(*at(50, 0))
    panel.get_by_text("NaN").wait_for()
    page.mouse.move(*at(30, 1))
    page.mouse.down()
    page.mouse.move(*at(40, 1))
    page.mouse.move(*at(49, 1))
    page.mouse.up()
    heat(page, "^l2.*steps 30 to 49")
    assert "from=30" in page.url
    assert "to=50" in page.url
    page.get_by_role("button", name="All steps").click()
    heat(page, "^l2.*steps 0 to 59")
    page.mouse.click(*at(40, 2))
    page.wait_for_url(re.compile("tensors.*tensor=gradient%3Ablocks.1.weight.*at=40"))


def test_the_map_by_keyboard_and_a_rule_of_a_cell(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "overview", "nan")
    press = page.keyboard.press
    press("g")
    press("l")
    heat(page).focus()
    for key in ("ArrowDown", "ArrowDown", "Home"):
        press(key)
    panel = page.get_by_role("complementary", name="Cell")
    panel.get_by_role("heading", name="Step 40").wait_for()
    spoken = page.locator("[aria-live=polite]", has_text="blocks.1.weight at step 40: 400")
    spoken.wait_for(state="attached")
    press("t")
    page.get_by_role("region", name="Values of the visible rows").get_by_text(
        "400"
    ).first.wait_for()
    panel.get_by_text("Make this a rule").click()
    panel.get_by_label("limit").fill("100")
    panel.get_by_role("button", name="Show where it would have fired").click()
    panel.get_by_text("It would have fired once in this run.").wait_for()
    page.get_by_role("img", name=re.compile("1 firings of the rule marked")).wait_for()
    heat(page).focus()
    press("ArrowUp")
    press("ArrowUp")
    press(" ")
    page.get_by_role("button", name=re.compile("blocks 3"), expanded=False).wait_for()
    heat(page, "in 1 rows")
