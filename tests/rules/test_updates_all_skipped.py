from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.updates_all_skipped import updates_all_skipped


def guarded(first: int, last: int, *, steps: int = 60, action: str = "skipped") -> Window:
    """A window in which the guard acted on each step of a range."""
    reason = "the loss is NaN (train.py:10)"
    facts = [
        StepGuarded(step=step, action=action, fault="loss", reason=reason, location="train.py:10")
        for step in range(first, last + 1)
    ]
    return window(loss([1.0] * steps), *facts)


def test_a_training_that_no_longer_moves_is_an_error() -> None:
    [found] = updates_all_skipped().check(guarded(30, 59))
    assert (found.severity, found.step, found.count) == (Severity.ERROR, 30, 30)
    assert found.message == (
        "the guard skipped every step from 30 to 59, so the weights no longer change; at step 30, "
        "the loss is NaN"
    )
    assert found.location == "train.py:10"


@pytest.mark.parametrize(
    ("first", "last", "action"),
    [(20, 58, "skipped"), (45, 59, "skipped"), (41, 59, "refused")],
)
def test_it_is_silent_while_steps_are_applied(first: int, last: int, action: str) -> None:
    assert updates_all_skipped().check(guarded(first, last, action=action)) == []


def test_a_training_that_never_moved_began_at_step_0() -> None:
    [found] = updates_all_skipped().check(guarded(0, 39, steps=40))
    assert (found.step, found.count) == (0, 40)


@pytest.mark.parametrize("action", ["reported", "stopped"])
def test_it_does_not_apply_where_no_step_was_skipped(action: str) -> None:
    with pytest.raises(NotApplicable, match="no step was skipped"):
        updates_all_skipped().check(guarded(30, 59, action=action))


def test_few_steps_are_not_enough() -> None:
    with pytest.raises(NotEnoughData, match="needs 20 steps, saw 10"):
        updates_all_skipped().check(guarded(0, 9, steps=10))
