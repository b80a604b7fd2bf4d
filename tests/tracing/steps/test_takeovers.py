from __future__ import annotations

from mothtrap.tracing.steps.takeovers import BESIDE, Takeovers


class Thing:
    """An optimizer or a weight."""

    def __init__(self, steps: int = 0) -> None:
        self.steps = steps


def test_an_optimizer_takes_over_what_one_that_worked_or_is_gone_has_trained() -> None:
    takeovers, weight = Takeovers(lambda one: one.steps), Thing()
    first = Thing(BESIDE + 1)
    assert not takeovers.begins(first, weight)
    assert takeovers.begins(Thing(), weight)
    assert takeovers.begins(Thing(), weight)  # the previous one is gone
    assert not takeovers.begins(Thing(), Thing())


def test_optimizers_that_work_side_by_side_take_nothing_over() -> None:
    takeovers, weight = Takeovers(lambda one: one.steps), Thing()
    beside = [Thing(BESIDE) for _ in range(3)]
    assert not any(takeovers.begins(one, weight) for one in beside)
