from __future__ import annotations

import pytest
from tests.rules.windows import LOSS, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.visible_tokens_labeled import visible_tokens_labeled


def call(step: int, shown: tuple[int, int, int] | None, classes: int = 50) -> LossCall:
    return LossCall(
        step=step,
        operation="cross_entropy",
        series=LOSS,
        classes=classes,
        location="lm.py:12",
        model_inputs=("int64",),
        targets=TargetSample(dtype="int64", count=400, input_offsets=(), shown=shown),
    )


def check(*calls: LossCall) -> list[Finding]:
    return visible_tokens_labeled().check(window(*calls))


def test_labels_of_tokens_that_are_not_masked_are_reported() -> None:
    [found] = check(call(0, (400, 340, 60)), call(8, (400, 344, 56)))
    assert (found.severity, found.location) == (Severity.WARNING, "lm.py:12")
    assert found.message == (
        "86 % of the labels equal the token at the same position, which the model sees; only 15 % "
        "are at masked positions"
    )
    assert "-100" in found.fixes[0]


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param((call(0, (60, 6, 48)), call(8, (60, 5, 50))), id="only the chosen tokens"),
        pytest.param((call(0, (400, 340, 9)), call(8, (400, 344, 7))), id="corrected tokens"),
        pytest.param((call(0, None), call(8, None)), id="all or none"),
        pytest.param((call(0, (400, 340, 60)),), id="one batch"),
        pytest.param((call(0, (400, 340, 60), 4), call(8, (400, 340, 60), 4)), id="few classes"),
    ],
)
def test_stays_quiet(calls: tuple[LossCall, ...]) -> None:
    assert check(*calls) == []


def test_needs_targets_beside_tokens() -> None:
    bare = {"step": 0, "operation": "cross_entropy", "series": LOSS, "classes": 50}
    with pytest.raises(NotEnoughData):
        check(LossCall(**bare))
    with pytest.raises(NotApplicable):
        check(LossCall(**bare, targets=TargetSample(dtype="int64", count=40)))
