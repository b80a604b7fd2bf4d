"""Distinguish transient from repeatable faults by whether a second replay gives the same bits."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.core.replays import ReplayResult

REPEATABLE = (
    "a replay gives the same bits as the run: the fault is repeatable, so it is in the code or "
    "the data"
)
TRANSIENT = (
    "the script did not change, and two replays give the same bits, but not the bits of the run: "
    "the fault in the run was transient, e.g. a flipped bit in memory or a defective processor"
)
NOT_DETERMINISTIC = (
    "two replays give different bits: the step has an operation that is not deterministic, or "
    "the script reads something that changes, so a transient fault cannot be distinguished from "
    "a bug here"
)


def repeatability(first: Sequence[ReplayResult], second: Sequence[ReplayResult]) -> str:
    """Interpret a second replay of a step that failed in the run but is fine here.

    Args:
        first: results of the replay, by rank.
        second: results of the same step, replayed once more.

    Returns:
        A sentence; "" if the second replay gave no result to compare.
    """
    if not second or len(first) != len(second):
        return ""
    same = all(_bits(one) == _bits(other) for one, other in zip(first, second, strict=True))
    return TRANSIENT if same else NOT_DETERMINISTIC


def _bits(result: ReplayResult) -> tuple[object, ...]:
    """Return the compared values: losses, and the first digest that differs from the run's."""
    differs = result.difference
    found = (differs.kind, differs.name, differs.found) if differs is not None else None
    return result.rank, result.losses, found, result.exception
