from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from msgspec import structs
from tests.rules.weights import MADE, facts
from tests.rules.windows import gradients, loss, window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.epsilon_too_large import EpsilonTooLarge
from mothtrap.testing import RuleTests

STEPS = 120
STAYS = np.linspace(1.39, 1.36, STEPS)
FALLS = np.linspace(1.39, 0.7, STEPS)


def seen(*, epsilon: float = 1.0, size: float = 0.01, losses: np.ndarray = STAYS) -> Window:
    """A training run whose gradients have this root mean square, half of it in one layer."""
    found = gradients("l2", {"0.weight": [size] * STEPS, "1.weight": [size / 2] * STEPS})
    elements = [int(np.prod(one.shape)) for one in found.tensors]
    found.values_ST[:] *= np.sqrt(elements)
    return window(facts(epsilon=epsilon), found, loss(losses))


class TestEpsilonTooLarge(RuleTests):
    rule = EpsilonTooLarge

    def sick(self) -> Iterable[Window]:
        yield seen()
        yield seen(epsilon=1e-3, size=1e-5)

    def healthy(self) -> Iterable[Window]:
        yield seen(losses=FALLS)
        yield seen(size=0.2)


def test_it_says_how_short_steps_are() -> None:
    [finding] = EpsilonTooLarge().check(seen())
    assert (finding.severity, finding.location) == (Severity.WARNING, MADE)
    assert "its steps are 0.99 % of their usual size" in finding.message


def test_a_gradient_below_a_usual_epsilon_is_a_fault_even_if_the_loss_falls() -> None:
    [finding] = EpsilonTooLarge().check(seen(epsilon=1e-8, size=5e-9, losses=FALLS))
    assert "the gradient of 100 % of the parameters is smaller than the epsilon" in finding.message
    assert "33 % of their usual size" in finding.message
    assert "find what makes the gradient so small" in finding.fixes[0]


def test_a_gradient_that_becomes_small_as_the_model_converges_is_none() -> None:
    found = gradients("l2", {"0.weight": np.geomspace(1, 1e-12, STEPS).tolist()})
    assert EpsilonTooLarge().check(window(facts(epsilon=1e-8), found, loss(FALLS))) == []


def test_an_epsilon_of_zero_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        EpsilonTooLarge().check(seen(epsilon=0.0))


def test_several_optimizers_are_not_judged() -> None:
    other = structs.replace(facts(epsilon=1.0), optimizer="other")
    with pytest.raises(NotApplicable, match="several optimizers"):
        EpsilonTooLarge().check(window(facts(epsilon=1.0), other, loss(STAYS)))
