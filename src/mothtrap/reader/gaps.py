"""Stretches of steps that were not watched, where curves break."""

from __future__ import annotations

from mothtrap.core.facts.captures import Unwatched
from mothtrap.reader.run import Run

MOST = 4096
"""Maximum number of ranges in an answer; chosen by hand: more than a screen has pixels."""


def gaps(run: Run, most: int = MOST) -> tuple[tuple[int, int], ...]:
    """Return the first and last step of each gap, ascending.

    If there are more than `most`, neighbors are merged into one range: curves are then drawn from
    buckets that are wider than the steps between them.
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted((gap.step, gap.last_step) for gap in run.observations(Unwatched)):
        if found and first <= found[-1][1] + 1:  # of several workers, or one after the other
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    together = -(-len(found) // most)
    return tuple(
        (part[0][0], part[-1][1])
        for part in (found[at : at + together] for at in range(0, len(found), together or 1))
    )


def watched_steps(run: Run) -> int:
    """Return the number of steps that were watched."""
    return run.steps - sum(min(last, run.steps - 1) + 1 - first for first, last in gaps(run))
