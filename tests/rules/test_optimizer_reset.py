from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.weights import MADE, facts
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.optimizer_reset import optimizer_reset


def made(step: int, **changes: object) -> OptimizerFacts:
    taken = msgspec.structs.replace(facts(step=step), takes_over=step > 0)
    return msgspec.structs.replace(taken, **changes)


def check(*seen: OptimizerFacts, **thresholds: int) -> list[Finding]:
    return optimizer_reset(**thresholds).check(window(*seen, steps=200))


def test_fires_on_the_line_that_makes_one_each_epoch() -> None:
    [finding] = check(*(made(step) for step in (0, 20, 40, 60, 80)))
    assert (finding.severity, finding.step, finding.last_step) == (Severity.WARNING, 20, 80)
    assert (finding.count, finding.location) == (4, MADE)
    assert "created 4 times, every 20 steps" in finding.message


def test_quiet_where_the_model_was_set_back() -> None:
    falls = np.tile(np.linspace(2.0, 0.2, 20), 5)
    steps = [made(step) for step in range(0, 100, 20)]
    assert optimizer_reset().check(window(loss(falls), *steps)) == []
    assert optimizer_reset().check(window(loss(np.linspace(2.0, 0.2, 100)), *steps)) != []


def test_quiet_on_two_or_three_stages() -> None:
    assert check(*(made(step) for step in (0, 20, 40))) == []
    assert check(*(made(step) for step in (0, 20, 40)), times=2) != []


@pytest.mark.parametrize("changes", [{"takes_over": False}, {"location": None}])
def test_quiet_on_new_models_and_unknown_lines(changes: dict[str, object]) -> None:
    assert check(*(made(step, **changes) for step in range(0, 100, 20))) == []


def test_quiet_on_stages_at_other_lines_or_of_other_parameters() -> None:
    steps = range(0, 100, 20)
    assert check(*(made(step, location=f"train.py:{step}") for step in steps)) == []
    assert check(*(made(step, elements=step) for step in steps)) == []


def test_does_not_apply_to_optimizers_without_memory() -> None:
    with pytest.raises(NotApplicable):
        check(*(made(step, second_moments=False) for step in range(0, 100, 20)))
    with pytest.raises(NotEnoughData):
        check()
