from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.optimizers import OpposedOptimizers
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.opponent_trained import opponent_trained
from mothtrap.testing import RuleTests


def compared(looks: int = 16, cosine: float = -0.1, mean: float = -0.4) -> OpposedOptimizers:
    return OpposedOptimizers(
        step=40,
        wide="adam_1",
        narrow="adam",
        shared=4,
        parameters=10,
        looks=looks,
        cosine=cosine,
        mean=mean,
        location="gan.py:20",
    )


class TestOpponentTrained(RuleTests):
    rule = opponent_trained

    def sick(self) -> Iterable[Window]:
        yield window(compared())
        yield window(compared(cosine=-0.98, mean=-1.0))

    def healthy(self) -> Iterable[Window]:
        yield window(compared(looks=8))
        yield window(compared(cosine=0.01))  # not in each pair of steps
        yield window(compared(cosine=-0.001, mean=-0.02))
        yield window(compared(), compared(looks=32, cosine=0.2))


def test_it_says_which_optimizer_holds_the_weights_of_which() -> None:
    [finding] = opponent_trained().check(window(compared()))
    assert (finding.severity, finding.location) == (Severity.WARNING, "gan.py:20")
    assert finding.message == (
        "adam_1 holds the 4 parameters of adam and 6 others, and its gradients for the shared "
        "parameters oppose the gradients of adam in all 16 inspected pairs of steps (mean cosine "
        "-0.40): each optimizer undoes the steps of the other"
    )


def test_it_does_not_apply_to_optimizers_of_their_own_weights() -> None:
    with pytest.raises(NotApplicable, match="no optimizer has all parameters of another"):
        opponent_trained().check(window(steps=3))
