"""Labels that belong to other rows, by the row names of data frames."""

from __future__ import annotations

from typing import Any, Final

MIN_ROWS: Final = 50
SHARED: Final = 0.5
"""Share of the row names that two frames must have in common to come from one table; by hand."""
IN_PLACE: Final = 0.5
"""Share of the rows at which the names must be equal to count as the same order; by hand."""


def is_apart(x: Any, y: Any) -> bool:
    """Return whether the labels are in a different order than the rows.

    Frames whose rows were numbered anew, such as those made from arrays, are skipped: their names
    say nothing about the order.

    Args:
        x: rows.
        y: labels.
    """
    ours, theirs = _names(x), _names(y)
    if ours is None or theirs is None or len(ours) != len(theirs) or ours.equals(theirs):
        return False
    if float((ours.values == theirs.values).mean()) >= IN_PLACE:
        return False
    return float(ours.isin(theirs).mean()) > SHARED


def _names(frame: Any) -> Any:
    """Return the names of the rows; None if there are none, or if they only count the rows."""
    index: Any = getattr(frame, "index", None)
    if not hasattr(index, "is_unique") or not hasattr(frame, "iloc") or len(index) < MIN_ROWS:
        return None
    if not index.is_unique or getattr(index, "nlevels", 1) != 1:
        return None
    counts = index.is_monotonic_increasing and index.dtype.kind in "iu"
    if counts and index[0] == 0 and index[-1] == len(index) - 1:
        return None
    return index
