from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.layers import PaddingWeights
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.attention_mask_wrong import attention_mask_wrong
from mothtrap.testing import RuleTests


def looked(*, rows: int = 60, inverted: int = 0, by_query: int = 0) -> PaddingWeights:
    return PaddingWeights(
        step=11,
        looks=5,
        token=0,
        rows=rows,
        inverted=inverted,
        by_query=by_query,
        location="train.py:9",
    )


class TestAttentionMaskWrong(RuleTests):
    rule = attention_mask_wrong

    def sick(self) -> Iterable[Window]:
        yield window(looked(inverted=60))
        yield window(looked(by_query=60))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(), steps=60)
        yield window(looked(inverted=30, by_query=30), steps=60)
        yield window(looked(rows=5, inverted=5), steps=60)


def check(fact: PaddingWeights) -> Finding:
    [finding] = attention_mask_wrong().check(window(fact))
    return finding


def test_an_inverted_mask_and_a_wrong_axis_have_their_fixes() -> None:
    inverted = check(looked(inverted=60))
    assert (inverted.severity, inverted.step, inverted.location) == (
        Severity.ERROR,
        0,
        "train.py:9",
    )
    assert "in 60 of 60 padded rows, attention sees only the padding (token 0)" in inverted.message
    assert inverted.fixes[0].startswith("Invert the mask")
    queries = check(looked(by_query=60))
    assert queries.severity is Severity.WARNING
    assert "runs along the queries" in queries.message
    assert queries.fixes[0].startswith("Add the axis of the heads")
