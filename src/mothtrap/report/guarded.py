"""Actions of the guard in a run: the number of steps, the steps, and the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.facts.guards import StepGuarded
from mothtrap.report.style import Style, count_of, ranges

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

MOST_STEPS = 64
"""Steps that JSON names."""
MOST_RANGES = 8
"""Ranges of steps that a line names; chosen by hand."""
WORDS = {
    "reported": "not finite or too large, but applied",
    "skipped": "skipped by the guard",
    "stopped": "not applied by the guard, which stopped the job",
    "raised": "not applied by the guard, which raised an error",
    "refused": "skipped by the script",
}


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """Steps for which the guard took the same action; `steps` are the first of `count`.

    `ranges` are the first ranges of all of them, such as `22-179`.
    `reasons` contains the number of steps by kind of fault, `reason` the reason of the first step.
    """

    action: str
    count: int
    steps: tuple[int, ...]
    ranges: str
    faults: dict[str, int]
    reason: str


def guarded(run: Run) -> tuple[Guarded, ...]:
    """Summarize the guard's actions on all workers, counting each step once."""
    by_step: dict[tuple[str, int], StepGuarded] = {}
    for seen in run.observations(StepGuarded):
        known = by_step.get((seen.action, seen.step))
        if known is None or known.fault == "worker":  # the responsible rank is more informative
            by_step[seen.action, seen.step] = seen
    found = []
    for action in WORDS:
        seen_of = [by_step[key] for key in sorted(by_step) if key[0] == action]
        if seen_of:
            found.append(
                Guarded(
                    action=action,
                    count=len(seen_of),
                    steps=tuple(seen.step for seen in seen_of[:MOST_STEPS]),
                    ranges=_first_ranges([seen.step for seen in seen_of]),
                    faults=dict(Counter(seen.fault for seen in seen_of)),
                    reason=seen_of[0].reason,
                )
            )
    return tuple(found)


def _first_ranges(steps: Sequence[int]) -> str:
    parts = ranges(steps).split(", ")
    return ", ".join(parts[:MOST_RANGES]) + (" ..." if len(parts) > MOST_RANGES else "")


def guarded_lines(found: tuple[Guarded, ...], style: Style) -> list[str]:
    """Return one line per guard action."""
    lines = []
    for each in found:
        first = ": " if each.count == 1 else f"; at step {each.steps[0]}, "
        lines.append(
            f"  {WORDS[each.action]}: {count_of(each.count, 'step')} "
            f"({each.ranges}){first}{style.safe(each.reason)}"
        )
    return lines
