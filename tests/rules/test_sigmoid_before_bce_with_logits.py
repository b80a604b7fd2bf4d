from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Severity
from mothtrap.rules.sigmoid_before_bce_with_logits import LOSS, SigmoidBeforeBceWithLogits


def call(*chain: str, operation: str = LOSS, step: int = 0) -> LossCall:
    return LossCall(step=step, operation=operation, chain=chain, location="train.py:7")


def check(*parts: LossCall):
    return SigmoidBeforeBceWithLogits().check(window(*parts))


@pytest.mark.parametrize("chain", [("sigmoid", "linear"), ("view", "cast", "sigmoid")])
def test_fires_on_a_sigmoid_under_the_loss(chain: tuple[str, ...]) -> None:
    [finding] = check(call(*chain, step=4), call(*chain, step=9))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 4, 2)
    assert finding.location == "train.py:7"


@pytest.mark.parametrize("chain", [(), ("linear",), ("mul", "sigmoid"), ("view", "linear")])
def test_stays_quiet_on_logits(chain: tuple[str, ...]) -> None:
    assert check(call(*chain)) == []


def test_another_loss_may_come_after_a_sigmoid() -> None:
    with pytest.raises(NotApplicable):
        check(call("sigmoid", operation="binary_cross_entropy"))
    with pytest.raises(NotEnoughData):
        SigmoidBeforeBceWithLogits().check(window(steps=3))
