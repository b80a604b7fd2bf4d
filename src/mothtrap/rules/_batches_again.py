"""Batches drawn by the script, without a loader, that consecutive steps train on."""

from __future__ import annotations

from mothtrap.core.facts.samples import SamplesTaken
from mothtrap.core.window import Window
from mothtrap.rules._batch_rows import FEW_ROWS


def batches_again(window: Window) -> dict[int, bool]:
    """Return, by step, whether a step trained on the same batch as the step before.

    Only steps whose step before is known, too, and whose batches have more rows than `FEW_ROWS`.
    """
    by_step = {
        one.step: one.batches[0]
        for one in window.seen(SamplesTaken)
        if len(one.batches) == 1 and not one.left_out and not one.batches[0].loader
    }
    found: dict[int, bool] = {}
    for step, batch in sorted(by_step.items()):
        before = by_step.get(step - 1)
        if before is not None and min(batch.rows, before.rows) > FEW_ROWS:
            first = before.same_as if before.same_as is not None else step - 1
            found[step] = batch.same_as == first
    return found


def uses(again: dict[int, bool]) -> list[int]:
    """Return the numbers of consecutive steps on each batch whose first and last use are known."""
    found: list[int] = []
    length = 0
    for step, same in sorted(again.items()):
        if step - 1 not in again:
            length = 0  # whether the step before was the first use is unknown
        if same:
            length += bool(length)
        else:
            found += [length] * bool(length)
            length = 1
    return found
