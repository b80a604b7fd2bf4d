from __future__ import annotations

import pytest
from tests.rules.windows import LOSS, loss, series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Severity
from mothtrap.rules.stale_gradient import StaleGradient


def stale(values: list[float], of: str = "Adam", steps: list[int] | None = None):
    return series("stale_gradient", values, of=of, steps=steps)


def test_fires_at_the_first_stale_step_once_four_ran() -> None:
    [finding] = StaleGradient().check(window(stale([0, 1, 1, 1, 1]), loss([1] * 5)))
    assert finding.severity is Severity.ERROR
    assert (finding.step, finding.count, finding.last_step) == (1, 4, 4)
    assert finding.location == LOSS


def test_stays_quiet_on_a_single_stale_step() -> None:
    assert StaleGradient().check(window(stale([0, 1, 0, 0, 1, 0]))) == []


def test_warns_if_gradients_are_cleared_only_in_every_second_step() -> None:
    [finding] = StaleGradient().check(window(stale([0, 1] * 25), loss([1] * 50)))
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 1, 25)
    assert StaleGradient().check(window(stale([0, 1] * 20))) != []
    assert StaleGradient().check(window(stale([0, 1] * 9))) == []
    assert StaleGradient().check(window(stale([0, 0, 1] * 25))) == []


def test_fires_on_evaluations_of_a_closure_within_one_step() -> None:
    [finding] = StaleGradient().check(window(stale([18.0], of="LBFGS")))
    assert "in 18 evaluations of its closure" in finding.message
    assert finding.fixes == ("Call `optimizer.zero_grad()` at the beginning of the closure.",)


def test_stays_quiet_on_one_evaluation_of_a_closure() -> None:
    assert StaleGradient().check(window(stale([1.0, 0.0, 1.0], of="LBFGS"))) == []


def test_counts_own_steps_of_an_optimizer_that_takes_turns() -> None:
    turns = stale([0, 1, 1, 1, 1], of="G", steps=[1, 3, 5, 7, 9])
    [finding] = StaleGradient().check(window(turns, stale([0, 0, 0], of="D", steps=[0, 2, 4])))
    assert (finding.step, finding.evidence["optimizer"]) == (3, "G")


def test_stays_quiet_on_cleared_gradients() -> None:
    assert StaleGradient().check(window(stale([0.0] * 20))) == []


def test_cannot_judge_what_was_not_watched() -> None:
    with pytest.raises(NotEnoughData):
        StaleGradient().check(window(steps=3))


def test_points_to_the_call_of_step_where_that_is_known() -> None:
    seen = OptimizerFacts(step=0, optimizer="Adam", kind="Adam", stepped_at="train.py:14")
    [finding] = StaleGradient().check(window(stale([0, 1, 1, 1, 1]), seen))
    assert finding.location == "train.py:14"


def test_what_grows_from_summed_gradients_is_no_story_of_its_own() -> None:
    assert {"activation_growth", "loss_diverging", "weight_growth"} <= set(StaleGradient.explains)
