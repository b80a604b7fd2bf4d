from __future__ import annotations

import math

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.too_good_to_be_true import TooGoodToBeTrue


def call(
    step: int, columns: tuple[int, ...] | None = None, counts: tuple[int, ...] | None = None
) -> LossCall:
    return LossCall(
        step=step,
        operation="cross_entropy" if counts else "elementwise",
        series=LOSS,
        location="train.py:9",
        label_counts=counts,
        targets=TargetSample(dtype="float32", count=64, telling_columns=columns, columns=8),
    )


def check(*observed: object, values: object = 0.3) -> list[Finding]:
    series = loss(np.full(40, values) if np.isscalar(values) else np.asarray(values))
    return TooGoodToBeTrue().check(window(series, *observed))


def test_a_column_that_tells_the_target_is_a_warning() -> None:
    [finding] = check(call(0, (7,)), call(8, (3, 7)), call(16))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert (finding.evidence["columns"], finding.location) == ([7], "train.py:9")


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param([call(0, (7,))], id="one look"),
        pytest.param([call(0, (7,)), call(8, (3,))], id="another column each time"),
        pytest.param([call(0, ()), call(8, ())], id="none"),
        pytest.param([call(0, (0, 1, 2, 3, 4)), call(8, (0, 1, 2, 3, 4))], id="easy data"),
        pytest.param([call(0), call(8)], id="no table"),
    ],
)
def test_stays_quiet(healthy: list[LossCall]) -> None:
    assert check(*healthy) == []


EVEN = (16, 16, 16, 16)
FALLEN = [1.4, 0.9, 0.3, 0.05, 0.01, *[0.005] * 30]


def test_a_loss_that_falls_to_nothing_at_once_is_a_note() -> None:
    [finding] = check(call(0, counts=EVEN), values=FALLEN)
    assert (finding.severity, finding.step) == (Severity.INFO, 4)
    assert finding.evidence["guessing"] == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(1.4 * np.exp(-np.arange(40) / 10), id="learns"),
        pytest.param(np.full(40, 0.005), id="pretrained"),
        pytest.param([1.4, *[0.02] * 30], id="falls, but not to nothing"),
    ],
)
def test_healthy_beginnings_stay_quiet(values: object) -> None:
    assert check(call(0, counts=EVEN), values=values) == []


def test_cannot_judge_games_or_unseen_targets() -> None:
    with pytest.raises(NotApplicable, match="compete"):
        check(call(0, (7,)), loss(np.ones(40), of="gan.py:9", optimizers=("G",)))
    with pytest.raises(NotEnoughData):
        check(LossCall(step=0, operation="elementwise"))
