from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets, EqualStates
from mothtrap.core.findings import Severity
from mothtrap.rules.equal_states import equal_states


def test_equal_states_are_a_note() -> None:
    seen = EqualStates(step=9, steps=8, location="train.py:7")
    [finding] = equal_states().check(window(loss([1.0] * 20), seen))
    assert (finding.severity, finding.step, finding.location) == (Severity.INFO, 2, "train.py:7")
    assert "in 8 of 8 steps (limit 8): the next state equals the state" in finding.message


def test_targets_of_a_model_are_no_fault() -> None:
    seen = BootstrappedTargets(step=9, module="q", steps=10)
    assert equal_states().check(window(loss([1.0] * 20), seen)) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 8 steps, saw 0"):
        equal_states().check(window())
