"""Labels that are in another order than their rows, by the index of data frames."""

from __future__ import annotations

from typing import Any, Final

MIN_ROWS: Final = 50
SHARED: Final = 0.5
"""Share of index values that two frames must have in common to come from one table; by hand."""
IN_PLACE: Final = 0.5
"""Share of the rows with equal index values from which the order counts as the same; by hand."""


def is_apart(x: Any, y: Any) -> bool:
    """Return whether the labels are in a different order than the rows.

    Frames with the index 0, 1, 2, ..., such as those made from arrays, are skipped, because this
    index says nothing about the order.

    Args:
        x: rows.
        y: labels.
    """
    ours, theirs = _index(x), _index(y)
    if ours is None or theirs is None or len(ours) != len(theirs) or ours.equals(theirs):
        return False
    if float((ours.values == theirs.values).mean()) >= IN_PLACE:
        return False
    return float(ours.isin(theirs).mean()) > SHARED


def _index(frame: Any) -> Any:
    """Return the index of a frame; None if there is none, or if it only counts the rows."""
    index: Any = getattr(frame, "index", None)
    if not hasattr(index, "is_unique") or not hasattr(frame, "iloc") or len(index) < MIN_ROWS:
        return None
    if not index.is_unique or getattr(index, "nlevels", 1) != 1:
        return None
    counts = index.is_monotonic_increasing and index.dtype.kind in "iu"
    if counts and index[0] == 0 and index[-1] == len(index) - 1:
        return None
    return index
