from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import gradients, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.zero_gradient import ZeroGradient

STEPS = 60


def check(**time: float | np.ndarray) -> list[Finding]:
    """Check a model whose part `time` has the gradients given, by parameter."""
    norms = {"body.weight": 1.0, "head.weight": 1.0, "head.bias": 0.0}
    norms |= {f"time.{name}": value for name, value in time.items()}
    seen = {name: np.broadcast_to(value, STEPS) for name, value in norms.items()}
    return ZeroGradient().check(window(gradients("l2", seen), steps=STEPS))


def test_a_layer_whose_gradient_is_always_0_is_a_note() -> None:
    [finding] = check(weight=0.0, bias=0.0)
    assert (finding.severity, finding.step, finding.layers) == (Severity.INFO, 0, ("time",))
    assert finding.message.startswith("the gradient of time is exactly 0 in all of 60 captured")
    assert "factor of 0" in finding.fixes[0]


def test_a_gate_that_opens_is_fine() -> None:
    assert check(weight=np.where(np.arange(STEPS) < 3, 0.0, 0.1)) == []


def test_one_parameter_with_a_gradient_is_enough() -> None:
    assert check(weight=0.0, bias=0.1) == []


def test_most_layers_at_0_are_no_matter_of_one_layer() -> None:
    zeros = {f"{n}.weight": np.zeros(STEPS) for n in range(3)}
    norms = gradients("l2", zeros | {"3.weight": np.ones(STEPS)})
    assert ZeroGradient().check(window(norms, steps=STEPS)) == []


def test_needs_some_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 30 captured steps, saw 5"):
        ZeroGradient().check(window(gradients("l2", {"a.weight": np.zeros(5)}), steps=5))
