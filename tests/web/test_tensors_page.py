"""Tensors in a real browser: every kind of run, the display of values, and the keyboard."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from tests.web.conftest import Site, Watched
from tests.web.deep_runs import MAPS, kept
from tests.web.test_page import HOSTILE_RUN, open_view

RUNS = ("healthy", "nan", "crashed", "live", "wide", "ranks", HOSTILE_RUN)
CELL = """(canvas) => {
    const side = Number(canvas.dataset.side);
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const rows = [];
    for (let y = 0; y < canvas.height; y += side) {
        const row = [];
        for (let x = 0; x < canvas.width; x += side) {
            const at = 4 * (y * canvas.width + x);
            row.push([data[at], data[at + 1], data[at + 2]]);
        }
        rows.push(row);
    }
    return rows;
}"""
RATIO = np.array([[22, 93, 177], [112, 163, 214], [226, 222, 212], [233, 150, 74], [178, 76, 2]])


def show(watched: Watched, site: Site, tensor: str, more: str = "") -> Any:
    return open_view(watched, site, "tensors", "values", f"&tensor={tensor}{more}")


def test_every_kind_of_run_teaches_what_to_capture(watched: Watched, site: Site) -> None:
    for run in RUNS:
        page = open_view(watched, site, "tensors", run)
        page.get_by_text("Only statistics of this tensor were captured.").wait_for()
        page.get_by_role("img", name=re.compile("^gradient norm")).wait_for()
        assert page.get_by_role("heading", name="Histogram").count() == 0
        page.get_by_role("heading", name=re.compile("Statistics at step")).wait_for()
        if run == "live":
            page.get_by_text("--raw --for 20").wait_for()
        else:
            page.get_by_text("raw = true").wait_for()
        assert page.get_by_role("option").count() < 40
    page = open_view(watched, site, "tensors", "empty")
    page.get_by_text("No tensors were captured yet.").wait_for()


def test_a_distribution_moves_the_cursor_and_zooms(watched: Watched, site: Site) -> None:
    page = show(watched, site, "gradient:fc.weight")
    said = r"steps 0 to 11, magnitudes from 2\^-20 to 2\^2, some not finite"
    canvas = page.get_by_role("img", name=re.compile(said))
    canvas.focus()
    for key in ("ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    page.get_by_role("heading", name="Histogram at step 9").wait_for()
    page.get_by_role("region", name="Histogram").get_by_text("2^-1", exact=True).wait_for()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 3.5 / 12, box["y"] + 20)
    page.get_by_role("heading", name="Histogram at step 3").wait_for()
    page.keyboard.press("w")
    page.get_by_role("button", name="All steps").wait_for()
    page.get_by_text("Only statistics of this tensor were captured, no values.").wait_for()


def test_each_sort_of_values_has_its_picture(watched: Watched, site: Site) -> None:
    for tensor, said in (
        ("input:model", "5 images of the batch at step 0"),
        ("weight:conv.weight", "Convolution filters, 8 outputs, 3 inputs at step 0"),
        (MAPS, "Feature maps of sample 0 at step 0"),
        ("activation:attn", "Attention heads of sample 0 at step 0"),
    ):
        page = show(watched, site, tensor, "&at=3")
        picture = page.get_by_role("img", name=said)
        picture.wait_for()
        assert picture.evaluate("each => each.decode().then(() => each.naturalWidth)") > 100
    page.get_by_label("sample").fill("1")
    page.get_by_label("sample").press("Enter")
    page.get_by_role("img", name="Attention heads of sample 1 at step 0").wait_for()
    page.get_by_role("button", name="Channels").click()
    page.get_by_role("region", name="Channels").get_by_role("row").nth(4).wait_for()
    page = show(watched, site, "output:head", "&at=0")
    page.get_by_text("of 16").first.wait_for()
    canvas = page.get_by_role("img", name=re.compile("Confusion matrix, 4 rows, 4 columns"))
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text(re.compile(r"label 0, predicted 1: \d")).first.wait_for()


def test_each_value_of_a_matrix_has_its_color(watched: Watched, site: Site) -> None:
    page = show(watched, site, "weight:conv.weight", "&as=matrix&index=5&index=1&at=0")
    canvas = page.get_by_role("img", name=re.compile("^Values, 3 rows, 3 columns"))
    canvas.wait_for()
    values = kept()["weight:conv.weight"][5, 1].astype(float)
    limit = np.abs(values).max()
    codes = 2 + np.floor(252 * (values + limit) / (2 * limit) + 0.5)
    at = (codes - 2) / 252 * 4
    low = np.minimum(at.astype(int), 3)
    colors = np.floor(RATIO[low] + (RATIO[low + 1] - RATIO[low]) * (at - low)[..., None] + 0.5)
    np.testing.assert_array_equal(canvas.evaluate(CELL), colors)
    page.get_by_label("axis 0").fill("2")
    page.get_by_label("axis 0").press("Enter")
    page.wait_for_url(re.compile("index=2&index=1"))


def test_a_rule_is_made_of_a_statistic_of_a_tensor(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "tensors", "nan", "&tensor=gradient:blocks.1.weight&at=41")
    page.get_by_text("Make this a rule").click()
    page.get_by_label("limit").fill("100")
    page.get_by_role("button", name="Show where it would have fired").click()
    page.get_by_text("It would have fired once in this run.").wait_for()
