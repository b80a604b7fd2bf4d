"""Reshapes that change the order of axes without moving the values."""

from __future__ import annotations

from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]


def mixes(given: Shape, became: Shape) -> bool:
    """Return whether a reshape changes the order of a tensor's axes.

    Either two axes are swapped whose sizes do not divide each other (otherwise, one axis might have
    been split and merged with the other). Or the last axis is merged with an axis that is not next
    to it, `(batch, heads, time, size)` as `(batch, time, heads * size)`. Or the last axis is split
    across another axis: `(batch, time, heads * size)` as `(batch, heads, time, size)`, or as
    `(batch * heads, time, size)`.
    """
    if sorted(given) == sorted(became):
        moved = [(a, b) for a, b in zip(given, became, strict=True) if a != b]
        if len(moved) != 2:
            return len(moved) > 2 and 1 not in given
        small, large = sorted(moved[0])
        return small > 1 and large % small != 0
    return _joins(given, became) or _joins(became, given) or _splits_into_rows(given, became)


def _joins(given: Shape, became: Shape) -> bool:
    """Return whether the last axis is merged with an axis that is not next to it."""
    if len(given) != len(became) + 1 or len(became) < 2:
        return False
    a, b, last = given[-3:]
    return (
        given[:-3] == became[:-2]
        and became[-2:] == (b, a * last)
        and len({1, a, b}) == 3
        and last > 1
    )


def _splits_into_rows(given: Shape, became: Shape) -> bool:
    """Return whether the last axis is split, and a part merged with an axis not next to it."""
    if len(given) != len(became) or len(given) < 3 or given[:-3] != became[:-3]:
        return False
    (rows, between, whole), (more, same, last) = given[-3:], became[-3:]
    parts = more // rows if rows else 0
    return (
        between == same
        and min(between, parts, last) > 1
        and (more, whole) == (rows * parts, parts * last)
        and parts != between
    )
