from __future__ import annotations

import msgspec
import pytest
from tests.rules.evaluations import evaluations
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.eval_targets_differ import eval_targets_differ


def check(
    mean: float | None,
    std: float | None,
    *,
    count: int = 64,
    places: tuple[str, ...] = ("t.py:9",),
    swapped: bool = False,
) -> list[Finding]:
    trained = [
        LossCall(
            step=step,
            operation="elementwise",
            location=place,
            swapped=swapped,
            targets=TargetSample(dtype="float32", count=count, mean=0.0, std=1.0),
        )
        for step, place in enumerate(places)
    ]
    [made] = evaluations([0.5])
    evaluated = msgspec.structs.replace(made, target_mean=mean, target_std=std)
    return eval_targets_differ().check(window(*trained, evaluated, steps=60))


@pytest.mark.parametrize(("mean", "std"), [(200.0, 30.0), (6.0, 1.0), (0.0, 20.0), (0.0, 0.05)])
def test_targets_on_another_scale(mean: float, std: float) -> None:
    [finding] = check(mean, std)
    assert (finding.severity, finding.step, finding.mode) == (Severity.WARNING, 10, "eval")
    assert f"mean {mean:.3g} and standard deviation {std:.3g} in evaluation" in finding.message


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (3.0, 4.0), (0.0, 0.0)])
def test_targets_on_the_same_scale(mean: float, std: float) -> None:
    assert check(mean, std) == []


def test_says_what_is_missing() -> None:
    with pytest.raises(NotApplicable, match="squared error"):
        check(None, None)
    with pytest.raises(NotApplicable, match="as the target"):
        check(200.0, 30.0, swapped=True)
    with pytest.raises(NotApplicable, match="several losses"):
        check(200.0, 30.0, places=("t.py:9", "t.py:12"))
    with pytest.raises(NotEnoughData, match="needs 32 training targets, saw 8"):
        check(200.0, 30.0, count=8)
