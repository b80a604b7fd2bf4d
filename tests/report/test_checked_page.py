"""Checks in the HTML report."""

from __future__ import annotations

from mothtrap.core.facts.checks import CheckResult, LayerRow
from mothtrap.report.checked_page import section

ROWS = (
    LayerRow(part="data", name="train.py:4", kind="TensorDataset", output=(100,)),
    LayerRow(part="input", name="0", kind="float32", output=(8, 6)),
    LayerRow(name="body", kind="Linear<b>", output=(8, 2), parameters=14, gradient="none"),
    LayerRow(part="loss", name="train.py:9", kind="cross_entropy"),
)
RESULTS = (
    CheckResult(step=3, code="PRE501", passed="every layer is used", layers=ROWS),
    CheckResult(step=3, code="PRE102", state="not_applicable", reason="no sequences"),
)


def test_a_run_without_checks_has_no_section() -> None:
    assert section((), {}) == ""


def test_the_way_of_the_data_and_the_table_are_shown() -> None:
    text = section(RESULTS, {"PRE102": "sees_the_future"})
    assert "<li>every layer is used</li>" in text
    assert "<li>PRE102 sees_the_future: no sequences</li>" in text
    assert text.index("TensorDataset (train.py:4)") < text.index("loss train.py:9")
    assert text.count("<rect") == 1 + len(ROWS)
    assert "<td>body</td>" in text
    assert "Linear<b>" not in text


def test_a_large_model_is_listed_but_not_drawn() -> None:
    rows = tuple(LayerRow(name=str(n), kind="Linear") for n in range(1200))
    text = section((CheckResult(step=0, code="PRE501", passed="used", layers=rows),), {})
    assert "<svg" not in text
    assert "200 more layers" in text
