from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.loss_jump_on_resume import LossJumpOnResume

BEFORE = (0.52, 0.48, 0.55, 0.5, 0.47, 0.53, 0.49, 0.51)


def check(after: Sequence[float], *facts: Fact, loaded: bool = True) -> list[Finding]:
    """Check an attempt that resumes at step 100 with the losses `after`."""
    resumed = Resumed(step=100, evidence="", loaded=loaded, losses={LOSS: BEFORE})
    steps = range(100, 100 + len(after))
    return LossJumpOnResume().check(window(resumed, *facts, loss(after, steps=list(steps))))


def test_a_jump_is_a_note_with_both_levels() -> None:
    [finding] = check([2.3, 2.2, 2.4, 2.1, 2.0], loaded=False)
    assert (finding.severity, finding.step, finding.location) == (Severity.INFO, 100, LOSS)
    assert "at step 100 with a loss of 2.25" in finding.message
    assert "had reached 0.505" in finding.message
    assert finding.fixes[0].startswith("No saved weights were loaded")


def test_the_advice_depends_on_what_was_restored() -> None:
    [data] = check([2.3, 2.2, 2.4, 2.1])
    assert "prepare the data in the same way" in data.fixes[0]
    fresh = OptimizersNotRestored(step=100, optimizers=("Adam",))
    [optimizer] = check([2.3, 2.2, 2.4, 2.1], fresh)
    assert "load the state of the optimizer" in optimizer.fixes[0]


@pytest.mark.parametrize(
    "after",
    [
        [0.5, 0.53, 0.49, 0.55],
        [0.9, 0.5, 0.7, 0.6],  # one batch is hard
        [0.6, 0.58, 0.61, 0.6],  # hardly higher
        [0.2, 0.2, 0.2, 0.2],
    ],
)
def test_losses_that_go_on_are_healthy(after: list[float]) -> None:
    assert check(after) == []


def test_needs_losses_of_both_attempts() -> None:
    with pytest.raises(NotEnoughData):
        check([2.3, 2.2])
    with pytest.raises(NotApplicable):
        LossJumpOnResume().check(window(loss([1.0] * 9)))
    alone = Resumed(step=0, evidence="it began again", losses={})
    with pytest.raises(NotApplicable):
        LossJumpOnResume().check(window(alone, loss([1.0] * 9)))
