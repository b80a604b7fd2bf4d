"""The compiled part of the package; None if it was installed without a C compiler."""

from __future__ import annotations

__all__ = ["arrays"]

try:
    from mothtrap.statistics import _arrays as arrays
except ImportError:
    arrays = None  # type: ignore[assignment]
