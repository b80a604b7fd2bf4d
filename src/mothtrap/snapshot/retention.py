"""Selection of the snapshots to remove, to make room for another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mothtrap.core.snapshots import BASE

BASES = 4
"""Number of base snapshots to keep: a step is found bad up to a few hundred steps later."""
ONSETS = ("unsound step", "exception")
"""Reasons whose only snapshot is never removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Properties of a snapshot that decide its retention; `created_s` is a Unix time."""

    name: str
    reason: str
    size_bytes: int
    created_s: float


def superfluous(there: Sequence[Kept], coming: Kept, *, most: int, most_bytes: float) -> list[Kept]:
    """Return the snapshots to remove so that one more can be stored.

    The oldest are removed first, but the last snapshot for each reason stays as long as there are
    others. Of the steps that went wrong, the first step stays, because the verdict names it.

    Args:
        there: existing snapshots.
        coming: the snapshot that is about to be written.
        most: maximum number of snapshots afterwards, not counting bases.
        most_bytes: limit on their total size.
    """
    left = sorted((k for k in there if k.name != coming.name), key=lambda kept: kept.created_s)
    bases = [k for k in left if k.reason == BASE]
    gone = bases[: max(0, len(bases) - BASES + (coming.reason == BASE))]
    left = [k for k in left if k not in gone]
    while left:
        counted = sum(k.reason != BASE for k in (*left, coming))
        size = sum(k.size_bytes for k in (*left, coming))
        if counted <= most and size <= most_bytes:
            break
        chosen = _least(left, coming, bases=counted <= most)
        if chosen is None:
            break
        left.remove(chosen)
        gone.append(chosen)
    return gone


def is_onset(reason: str) -> bool:
    """Return whether a step was kept because it went wrong."""
    return kind_of(reason) in ONSETS


def kind_of(reason: str) -> str:
    """Return the constant words of a reason, without its case-specific part."""
    return reason.partition(":")[0].partition(" (")[0]


def _least(left: Sequence[Kept], coming: Kept, *, bases: bool) -> Kept | None:
    """Return the least useful snapshot, never the latest base; None if none may be removed."""
    older = [kept for kept in left if kept.reason == BASE][:-1]
    if bases and older:
        return older[0]
    kinds = Counter(kind_of(k.reason) for k in (*left, coming))
    others = [kept for kept in left if kept.reason != BASE]
    several = [kept for kept in others if kinds[kind_of(kept.reason)] > 1]
    oldest = {kind_of(kept.reason): kept for kept in reversed(several) if is_onset(kept.reason)}
    first = list(oldest.values())
    later = [kept for kept in several if kept not in first]
    lone = [kept for kept in others if not is_onset(kept.reason)]
    return next(iter([*later, *lone, *first]), None)
