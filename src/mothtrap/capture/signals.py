"""Losses and gradient norms of the latest steps, and their normal range."""

from __future__ import annotations

import math
from collections import deque

REMEMBERED = 64
"""Number of values of a signal that define its range."""
FEWEST = 16
"""Minimum number of values for a range."""
SMALLEST_SPAN = 0.01
"""Minimum span as a share of the largest absolute value, for signals that hardly change. Chosen by
hand.
"""
MOST_SIGNALS = 64


class Signals:
    """The normal range of each signal: the span of its latest values, extended by the same amount.

    A signal with normal noise almost never leaves it: 64 values span 4.7 standard deviations.
    """

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}
        self._broken: set[str] = set()

    def leaves(self, name: str, value: float) -> bool:
        """Record a value; return whether it is the first value outside the range.

        Args:
            name: name of the signal.
            value: NaN and infinite values are outside every range, and remain outside until a
                finite value follows.
        """
        if not math.isfinite(value):
            known = name in self._broken
            self._broken.add(name)
            return not known
        self._broken.discard(name)
        values = self._values.get(name)
        if values is None:
            if len(self._values) >= MOST_SIGNALS:
                return False
            values = self._values[name] = deque(maxlen=REMEMBERED)
        outside = False
        if len(values) >= FEWEST:
            low, high = min(values), max(values)
            span = max(high - low, SMALLEST_SPAN * max(abs(low), abs(high)))
            outside = not low - span <= value <= high + span
        values.append(value)
        return outside
