from __future__ import annotations

import pytest
from tests.rules.windows import LOSS, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.targets_shifted_wrongly import targets_shifted_wrongly


def call(step: int, *offsets: int, classes: int = 50, line: int = 12) -> LossCall:
    return LossCall(
        step=step,
        operation="cross_entropy",
        series=LOSS,
        classes=classes,
        location=f"lm.py:{line}",
        model_inputs=("int64",),
        targets=TargetSample(dtype="int64", count=40, input_offsets=offsets),
    )


def check(*calls: LossCall) -> list[Finding]:
    return targets_shifted_wrongly().check(window(*calls))


def test_targets_two_positions_later_are_shifted_twice() -> None:
    [finding] = check(call(0, 2), call(8, 2))
    assert (finding.severity, finding.location) == (Severity.WARNING, "lm.py:12")
    assert "two positions later" in finding.message
    assert finding.fixes[0].startswith("Shift once")


def test_targets_one_position_earlier_are_shifted_in_the_wrong_direction() -> None:
    [finding] = check(call(0, -1), call(8, -1))
    assert "one position earlier" in finding.message
    assert finding.fixes[0].startswith("Roll targets to the left")


def test_a_delay_of_a_few_symbols_may_be_the_task() -> None:
    [finding] = check(call(0, -1, classes=4), call(8, -1, classes=4))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "calls",
    [
        (call(0, 1), call(8, 1)),
        (call(0, 0), call(8, 0)),
        (call(0, 2),),  # one batch may agree by chance
        (call(0, 2), call(8)),
        (call(0, 1, line=1), call(0, 2, line=2), call(8, 1, line=1), call(8, 2, line=2)),
    ],
)
def test_stays_quiet(calls: tuple[LossCall, ...]) -> None:
    assert check(*calls) == []


def test_needs_targets_beside_tokens() -> None:
    bare = LossCall(step=0, operation="cross_entropy", series=LOSS, classes=50)
    with pytest.raises(NotEnoughData):
        check(bare)
    with pytest.raises(NotApplicable):
        check(
            LossCall(
                step=0,
                operation="cross_entropy",
                series=LOSS,
                classes=50,
                targets=TargetSample(dtype="int64", count=40),
            )
        )
