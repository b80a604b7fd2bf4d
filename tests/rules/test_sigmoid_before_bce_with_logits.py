from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.sigmoid_before_bce_with_logits import (
    LOSS,
    OF_PROBABILITIES,
    sigmoid_before_bce_with_logits,
)


def call(*chain: str, operation: str = LOSS, step: int = 0) -> LossCall:
    return LossCall(step=step, operation=operation, chain=chain, location="train.py:7")


def check(*parts: LossCall):
    return sigmoid_before_bce_with_logits().check(window(*parts))


@pytest.mark.parametrize("chain", [("sigmoid", "linear"), ("view", "cast", "sigmoid")])
def test_fires_on_a_sigmoid_under_the_loss(chain: tuple[str, ...]) -> None:
    [finding] = check(call(*chain, step=4), call(*chain, step=9))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 4, 2)
    assert finding.location == "train.py:7"


@pytest.mark.parametrize("chain", [(), ("linear",), ("mul", "sigmoid"), ("view", "linear")])
def test_stays_quiet_on_logits(chain: tuple[str, ...]) -> None:
    assert check(call(*chain)) == []


def test_fires_on_two_sigmoids_under_a_loss_of_probabilities() -> None:
    [finding] = check(call("sigmoid", "view", "sigmoid", operation=OF_PROBABILITIES))
    assert finding.message == "sigmoid is applied twice before binary cross-entropy"
    assert finding.fixes[0].startswith("Remove one of the two sigmoids")


@pytest.mark.parametrize("chain", [("sigmoid", "linear"), ("sigmoid", "mul", "sigmoid"), ()])
def test_a_loss_of_probabilities_may_come_after_one_sigmoid(chain: tuple[str, ...]) -> None:
    assert check(call(*chain, operation=OF_PROBABILITIES)) == []


def ranged(
    low: float, high: float, *, mode: Mode = Mode.EVAL, step: int = 0, of: str = LOSS
) -> LossCall:
    return LossCall(
        step=step,
        mode=mode,
        operation=of,
        location="train.py:9" if mode is Mode.EVAL else "train.py:7",
        predicted_least=low,
        predicted_greatest=high,
    )


TRAINED = ranged(-4.0, 3.0, mode=Mode.TRAIN)
PROBABILITIES = [ranged(0.01, 0.9, step=step) for step in range(4)]


def test_an_evaluation_gets_probabilities_where_training_gets_logits() -> None:
    [finding] = check(TRAINED, *PROBABILITIES)
    assert (finding.severity, finding.mode, finding.location) == (
        Severity.ERROR,
        "eval",
        "train.py:9",
    )
    assert "between 0.01 and 0.9 in all 4 inspected calls" in finding.message
    assert finding.fixes[0].startswith("In evaluation, pass the logits")


@pytest.mark.parametrize(
    "parts",
    [
        [TRAINED, *PROBABILITIES[:3]],
        [TRAINED, *PROBABILITIES, ranged(-0.1, 0.9, step=9)],
        [ranged(0.0, 3.5, mode=Mode.TRAIN), *PROBABILITIES],
        [ranged(-0.5, 1.0, mode=Mode.TRAIN), *PROBABILITIES],
        [TRAINED, *[ranged(0.5, 0.5, step=step) for step in range(4)]],
        PROBABILITIES,
    ],
    ids=["few calls", "also logits", "never below 0", "short span", "constant", "no training"],
)
def test_stays_quiet_on_evaluations(parts: list[LossCall]) -> None:
    assert check(*parts) == []


def test_other_losses_are_not_judged() -> None:
    with pytest.raises(NotApplicable):
        check(call("sigmoid", operation="elementwise"))
    with pytest.raises(NotEnoughData):
        sigmoid_before_bce_with_logits().check(window(steps=3))
