"""Inspections of a model in training stay within their share of time."""

from __future__ import annotations

from mothtrap.tracing.boosting import trees


def test_looks_take_a_share_of_the_training() -> None:
    """An inspection of 10 ms is made once in 500 ms if the share is 2 %; without one, always."""
    now = [0.0]
    allowance = trees.Allowance(0.02, clock=lambda: now[0])

    def look() -> None:
        now[0] += 0.01

    made = []
    for step in range(200):
        now[0] += 0.01
        if step == 0 or allowance.covers_a_look():
            allowance.spend(look)
            made.append(step)
    assert 4 <= len(made) <= 5
    assert trees.Allowance(0.0, clock=lambda: 0.0).covers_a_look()
