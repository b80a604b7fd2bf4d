from __future__ import annotations

import math

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.wrong_initial_loss import WrongInitialLoss


def call(step: int = 0, *, classes: int = 10, reduction: str = "mean", **more: object) -> LossCall:
    fields: dict[str, object] = {"label_counts": (6,) * classes, **more}
    return LossCall(
        step=step,
        operation="cross_entropy",
        series=LOSS,
        classes=classes,
        reduction=reduction,
        **fields,
    )


def check(values: object, *calls: LossCall, **more: object) -> list[Finding]:
    return WrongInitialLoss().check(window(loss(np.asarray(values), **more), *(calls or [call()])))


HIGH = math.log(10) + 3.1
FALLING = np.linspace(2 * HIGH, HIGH, 12)


def test_losses_far_above_guessing_are_a_warning() -> None:
    [finding] = check(FALLING)
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert finding.location == LOSS


def test_cold_similarities_need_a_higher_temperature() -> None:
    [finding] = check(FALLING, call(prediction_shape=(10, 10), label_counts=(1,) * 10))
    assert finding.fixes[0].startswith("Raise the temperature")
    [finding] = check(FALLING, call(prediction_shape=(10, 10)))
    assert finding.fixes[0].startswith("Scale the inputs")


def test_vectors_without_a_norm_are_normalized_first() -> None:
    chain = ("div", "linear", "native_layer_norm", "linear")
    shape = {"prediction_shape": (10, 10), "label_counts": (1,) * 10}
    [finding] = check(FALLING, call(chain=chain, **shape))
    assert finding.fixes[0].startswith("Normalize both vectors")
    [finding] = check(FALLING, call(chain=("div", "linear", "div"), **shape))
    assert finding.fixes[0].startswith("Raise the temperature")


def test_a_loss_of_both_directions_has_twice_the_limit() -> None:
    shape = {"prediction_shape": (10, 10), "label_counts": (1,) * 10}
    both = [call(alone=False, complete=True, **shape) for _ in range(2)]
    assert len(check(2 * FALLING, *both)) == 1
    assert check(np.full(12, 1.9 * math.log(100)), *both) == []
    with pytest.raises(NotApplicable):
        check(2 * FALLING, *(call(alone=False, **shape) for _ in range(2)))


def test_the_limit_grows_with_the_classes() -> None:
    many = call(classes=10000)
    assert check(np.full(12, 18.0), many) == []
    assert len(check(np.full(12, 18.5), many)) == 1


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.full(12, math.log(10)), id="guessing"),
        pytest.param(np.full(12, 0.4), id="pretrained"),
        pytest.param(np.full(12, HIGH - 0.2), id="a little above"),
        pytest.param([2.3, 9, 9, 9, 9, 9], id="the first step broke it: another fault"),
        pytest.param([9, 2.3, 2.3, 2.3, 2.3, 2.2], id="one bad batch"),
    ],
)
def test_stays_quiet(values: object) -> None:
    assert check(values) == []


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([call(reduction="sum")], id="summed"),
        pytest.param([call(), call()], id="several terms"),
        pytest.param([call(label_counts=None)], id="soft targets"),
        pytest.param([LossCall(step=0, operation="elementwise")], id="regression"),
    ],
)
def test_does_not_apply(calls: list[LossCall]) -> None:
    with pytest.raises(NotApplicable):
        check(FALLING, *calls)


def test_a_run_that_goes_on_does_not_begin() -> None:
    with pytest.raises(NotApplicable, match="first losses"):
        check(FALLING, call(400), steps=np.arange(400, 412))
    with pytest.raises(NotApplicable, match="first losses"):
        check(FALLING, total=800)


def test_needs_five_losses() -> None:
    with pytest.raises(NotEnoughData, match="needs 5 losses"):
        check(FALLING[:4])


def test_a_loss_with_a_penalty_beside_it_is_not_judged() -> None:
    with pytest.raises(NotApplicable, match="several terms"):
        check(FALLING, call(alone=False))
