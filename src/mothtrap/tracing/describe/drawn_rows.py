"""Repetitions of rows in the batches that a script draws itself.

Rows of one data set that are drawn at random come back by chance. The chance is estimated from
batches that are far apart, so it includes equal rows of the data, small data sets, and replay
buffers. Rows that stay from one batch to the next more often than that were not drawn again.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from mothtrap.statistics.digest import Digests

REPORT_AT: Final = (32, 64, 128, 256, 512)
"""Numbers of batches after which the counts are reported; later batches are not compared."""
MAX_ROWS: Final = 256
"""Maximum number of compared rows of a batch, so that comparing takes 0.2 ms."""
FAR: Final = 16
"""Number of different batches between two batches. Rows that these two share are due to chance."""
GONE: Final = 4
"""Number of different batches after which a row that is seen again has come back."""
LEAST_RUNS: Final = 3
"""Minimum number of runs of equal batches; with fewer, their lengths cannot be called regular."""
REGULAR: Final = 0.8
"""Share of the runs that have one of the two most frequent lengths, if a loop plans them: several
steps on each batch, or one more in every second step. Chosen by hand."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Counts of the rows of all batches so far.

    Attributes:
        batches: number of batches.
        rows: rows of the largest batch.
        drawn: compared rows of all batches.
        distinct: number of different rows.
        same: batches with exactly the rows of the previous batch, in the same order.
        kept: mean share of the rows of all other batches that were in the previous batch.
        usual: mean share of the rows that were in a batch long before.
        returned: share of the drawn rows that came back after other batches.
        shifted: share of the batches whose rows have moved by some places.
        irregular: the numbers of consecutive equal batches follow no plan.
    """

    batches: int
    rows: int
    drawn: int
    distinct: int
    same: int
    kept: float
    usual: float
    returned: float
    shifted: float
    irregular: bool


class DrawnRows:
    """Compares the rows of consecutive batches.

    Attributes:
        batches: number of batches so far.
        distinct: number of different rows so far.
    """

    def __init__(self) -> None:
        self.batches = self._rows = self._drawn = self._same = self._returned = 0
        self._kept: list[float] = []
        self._usual: list[float] = []
        self._shifted = 0
        self._run: int | None = 1  # None if its beginning was not observed
        self._lengths: Counter[int] = Counter()
        self._before: Digests | None = None
        self._changed: deque[frozenset[int]] = deque(maxlen=FAR + 1)
        self._changes = 0
        self._latest: dict[int, int] = {}

    @property
    def distinct(self) -> int:
        """Number of different rows so far."""
        return len(self._latest)

    @property
    def is_over(self) -> bool:
        """Return whether no further batch is compared."""
        return self.batches >= REPORT_AT[-1]

    def skip(self) -> None:
        """Record that batches were not observed."""
        self._before, self._run = None, None

    def add(self, digest_R: Digests, rows: int) -> bool:
        """Add a batch; return whether it is time to report.

        Args:
            digest_R: digests of the first rows, at most `MAX_ROWS`, uint64.
            rows: number of all rows.
        """
        self.batches += 1
        self._rows = max(self._rows, rows)
        self._drawn += len(digest_R)
        before, self._before = self._before, digest_R
        if before is not None and np.array_equal(before, digest_R):
            self._same += 1
            self._run = None if self._run is None else self._run + 1
        else:
            self._add_changed(before, digest_R)
        return self.batches in REPORT_AT

    def _add_changed(self, before: Digests | None, digest_R: Digests) -> None:
        rows = frozenset(digest_R.tolist())
        if before is not None:
            if self._run is not None:
                self._lengths[self._run] += 1
            self._run = 1
            self._kept.append(len(rows.intersection(before.tolist())) / len(rows))
            self._shifted += _is_shifted(before, digest_R)
        self._changes += 1
        if len(self._changed) > 1:
            self._usual.append(len(rows & self._changed[0]) / len(rows))
        self._changed.append(rows)
        for row in rows:
            self._returned += self._latest.get(row, self._changes) <= self._changes - GONE
            self._latest[row] = self._changes

    def counts(self) -> Draws:
        """Return the counts of all batches so far."""
        runs = self._lengths.total()
        planned = sum(count for _, count in self._lengths.most_common(2))
        return Draws(
            batches=self.batches,
            rows=self._rows,
            drawn=self._drawn,
            distinct=self.distinct,
            same=self._same,
            kept=float(np.mean(self._kept)) if self._kept else 0.0,
            usual=float(np.mean(self._usual)) if self._usual else 0.0,
            returned=self._returned / max(1, self._drawn),
            shifted=self._shifted / max(1, len(self._kept)),
            irregular=runs >= LEAST_RUNS and planned <= max(2, REGULAR * runs),
        )


def _is_shifted(before: Digests, now: Digests) -> bool:
    """Return whether a batch consists of the end of the previous batch and new rows."""
    places = np.flatnonzero(before == now[0])
    for place in places.tolist():
        if place and np.array_equal(before[place:], now[: len(before) - place]):
            return True
    return False
