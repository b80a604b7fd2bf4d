"""Actions of the guard in a run: the number of steps, the steps, and the reasons."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.facts.guards import StepGuarded
from mothtrap.report.style import Style, count_of, ranges

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

MOST_STEPS = 64
"""Steps that are named."""
WORDS = {
    "reported": "unsound, and applied",
    "skipped": "skipped by the guard",
    "stopped": "not applied, and the job stopped by the guard",
    "raised": "not applied, and an error raised by the guard",
    "refused": "skipped by the script",
}


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """Steps with which the guard did the same; `steps` are the first of `count`.

    `reasons` are by kind of fault how many steps it had, `reason` is that of the first.
    """

    action: str
    count: int
    steps: tuple[int, ...]
    faults: dict[str, int]
    reason: str


def guarded(run: Run) -> tuple[Guarded, ...]:
    """Sum up what the guards of all workers did; a step counts once."""
    by_step: dict[tuple[str, int], StepGuarded] = {}
    for seen in run.observations(StepGuarded):
        known = by_step.get((seen.action, seen.step))
        if known is None or known.fault == "worker":  # who is to blame says more
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
                    faults=dict(Counter(seen.fault for seen in seen_of)),
                    reason=seen_of[0].reason,
                )
            )
    return tuple(found)


def guarded_lines(found: tuple[Guarded, ...], style: Style) -> list[str]:
    """One line for each thing that the guard did."""
    lines = []
    for each in found:
        more = " ..." if each.count > len(each.steps) else ""
        first = "" if each.count == 1 else f"at step {each.steps[0]} "
        lines.append(
            f"  {WORDS[each.action]}: {count_of(each.count, 'step')} "
            f"({ranges(each.steps)}{more}): {first}{style.safe(each.reason)}"
        )
    return lines
