"""The chart of a finding shows the series that its rule evaluated, with the limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.web.conftest import Site, Watched, until
from tests.web.evidence_runs import (
    CONSTANT,
    DIVERGING,
    EXPLODING,
    NORMS,
    STEPS,
    SWAPPED,
    VANISHING,
    make_evidence,
)
from tests.web.test_api import series

FIRST, LAST = "train/gradient.l2/0.bias", "train/gradient.l2/6.bias"
RECORD_TEXTS = """
window.drawnTexts = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.drawnTexts.push(text);
    return draw.call(this, text, ...place);
};
"""

RECORD_BANDS = """
window.bands = [0];
const fill = CanvasRenderingContext2D.prototype.fillRect;
CanvasRenderingContext2D.prototype.fillRect = function (x, y, width, height) {
    if (this.globalAlpha < 0.2) window.bands.push(width);
    return fill.call(this, x, y, width, height);
};
"""


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over runs whose findings need different charts."""
    runs = tmp_path_factory.mktemp("evidence") / "runs"
    make_evidence(runs)
    served = Site(runs)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Any, proved: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), proved.origin)
    seen.page.add_init_script(RECORD_TEXTS)
    yield seen.page
    context.close()
    seen.assert_quiet()


def told(site: Site, run: str, finding: Any) -> Any:
    return site.json(f"/api/findings?run={run}")["findings"][finding.fingerprint]


def test_a_vanishing_gradient_is_the_first_layer_against_the_last(proved: Site) -> None:
    chart = told(proved, "vanish", VANISHING)["chart"]
    assert (chart["curves"], chart["scale"]) == ([FIRST, LAST], "log")
    (line,) = chart["lines"]
    assert line["of"] == LAST
    assert line["times"] == pytest.approx(1e-3 * 2)  # 16 elements against 4: a norm is twice


def test_a_norm_of_all_layers_is_drawn_with_its_limit(proved: Site) -> None:
    chart = told(proved, "vanish", EXPLODING)["chart"]
    assert chart["curves"] == ["train/gradient.l2/*", LAST]
    assert [line["value"] for line in chart["lines"]] == [100.0]
    _, (joint,) = series(proved, "vanish", "train/gradient.l2/*")
    np.testing.assert_allclose(joint["last"], np.sqrt(np.square(NORMS).sum()), rtol=1e-6)
    assert joint["count"] == 60


def test_a_number_of_a_fact_is_a_curve(proved: Site) -> None:
    chart = told(proved, "constant", CONSTANT)["chart"]
    assert chart["curves"] == ["fact/OutputSpread.spread÷rms/root=net"]
    _, (curve,) = series(proved, "constant", *chart["curves"])
    np.testing.assert_allclose(curve["last"], 1e-5, rtol=1e-6)
    status, _, body = proved.ask("/api/series?run=constant&name=fact/OutputSpread.nothing/root=net")
    assert (status, b"there is no curve" in body) == (404, True)


def test_a_finding_without_a_series_says_that_the_loss_is_no_proof(proved: Site) -> None:
    chart = told(proved, "constant", SWAPPED)["chart"]
    assert chart["is_context"]
    assert chart["curves"] == ["train/loss:train.py:4 SGD"]


def test_diverging_ranks_are_shown_rank_by_rank(proved: Site, page: Any) -> None:
    ranks = told(proved, "ranks", DIVERGING)["ranks"]
    assert (ranks["layer"], ranks["steps"]) == ("3", [0, 10, 20, 30, 40, 50])
    assert ranks["groups"] == [[0] * 6, [0, 0, 0, 1, 1, 1]]
    page.goto(proved.url("#/findings?run=ranks"))
    table = page.get_by_role("region", name="Weights on each rank")
    table.wait_for()
    assert table.locator("tbody tr").nth(1).inner_text().split() == [
        "rank",
        "1",
        "A",
        "A",
        "A",
        "B",
        "B",
        "B",
    ]
    assert page.get_by_role("img", name=re.compile("Loss")).count() == 0


def test_an_onset_that_is_known_as_a_range_is_a_range_in_the_chart(proved: Site, page: Any) -> None:
    page.add_init_script(RECORD_BANDS)
    page.goto(proved.url("#/overview?run=ranks"))
    verdict = page.get_by_role("region", name="Verdict")
    verdict.get_by_text("since a step between 30 and 40").wait_for()
    plot = page.locator(".u-over").first
    plot.wait_for()
    wanted = plot.bounding_box()["width"] * (40 - 30) / (STEPS - 1)
    until(lambda: wanted == pytest.approx(page.evaluate("window.bands")[-1], rel=0.05), 20)


def test_the_loss_is_that_of_the_rank_of_the_finding(proved: Site, page: Any) -> None:
    page.goto(proved.url("#/overview?run=ranks"))
    page.get_by_role("heading", name="Loss of rank 1").wait_for()
    page.get_by_role("img", name=re.compile(r"^Loss, .* highest 3\.28")).wait_for()


def test_a_button_promises_only_what_there_is(proved: Site, page: Any) -> None:
    """The chart of a finding without a series is the loss, which shows no bad step."""
    page.goto(proved.url("#/overview?run=ranks"))
    page.get_by_role("link", name="Explanation and source line").wait_for()
    assert page.get_by_role("link", name="Show the first bad step").count() == 0
    page.goto(proved.url("#/overview?run=vanish"))
    page.get_by_role("link", name="Show the first bad step").wait_for()


def test_the_chart_names_its_quantity_and_the_limit(proved: Site, page: Any) -> None:
    page.goto(proved.url(f"#/findings?run=vanish&finding={VANISHING.fingerprint}"))
    page.get_by_role("heading", name="Gradient norm of the first and of the last layer").wait_for()
    page.get_by_text("limit: 0.001 of the last layer").wait_for()


def test_an_axis_within_one_power_of_ten_has_labels(proved: Site, page: Any) -> None:
    page.goto(proved.url("#/curves?run=constant&name=train/loss:train.py:4 SGD&scale=log"))
    page.get_by_role("img", name=re.compile(r"loss \(")).wait_for()
    until(lambda: len(labels_of(page)) > 1)


def labels_of(page: Any) -> set[float]:
    """Return the labels of the y axis: the losses are 2.279 to 2.281."""
    drawn = page.evaluate("window.drawnTexts")
    return {float(text) for text in drawn if re.fullmatch(r"2\.2\d+", text)}


def test_a_finding_leads_to_layer_tensor_and_rule(proved: Site, page: Any) -> None:
    start = proved.url(f"#/findings?run=vanish&finding={VANISHING.fingerprint}")
    page.goto(start)
    page.get_by_role("link", name="Show in Layers").click()
    page.get_by_role("complementary", name="Cell").get_by_text("0.bias", exact=True).wait_for()
    page.go_back()
    page.get_by_role("link", name="Open tensor 0.bias").click()
    page.get_by_role("heading", name="0.bias gradient").wait_for()
    page.go_back()
    page.get_by_role("button", name="About rule GRD102").click()
    page.get_by_text("Stays quiet.").wait_for()
    assert page.get_by_role("link", name=re.compile("^Samples of step")).count() == 0


def test_the_line_of_a_finding_opens_in_an_editor(proved: Site, page: Any) -> None:
    page.goto(proved.url("#/findings?run=vanish"))
    link = page.get_by_role("link", name="Open in editor")
    assert link.get_attribute("href") == f"vscode://file{proved.runs}/train.py:4"
    page.get_by_label("Editor").select_option("PyCharm")
    until(lambda: link.get_attribute("href").startswith("pycharm://open?file="))
    page.reload()
    assert page.get_by_label("Editor").input_value() == "PyCharm"


def test_views_that_a_run_cannot_fill_are_not_offered(proved: Site, page: Any) -> None:
    page.goto(proved.url("#/overview?run=quiet"))
    page.get_by_role("heading", level=1).first.wait_for()
    page.get_by_role("link", name="Samples", exact=True).wait_for(state="detached")
    shown = page.get_by_role("navigation", name="Views").get_by_role("link").all_inner_texts()
    assert "Layers" in shown
    assert "Logs" not in shown
    page.goto(proved.url("#/logs?run=quiet"))  # an old address still works
    page.get_by_text("No output was stored").wait_for()
