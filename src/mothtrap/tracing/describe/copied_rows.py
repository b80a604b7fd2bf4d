"""Rows that are equal because they were copied, not by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.window import Bools
from mothtrap.statistics.digest import Digests

Array = npt.NDArray[Any]

MAX_ROWS, MAX_COLUMNS = 256, 512
"""Size of the sample in which rows are compared."""
LEAST_ROWS, LEAST_KNOWN = 32, 5
"""Minimum number of rows in the sample, and of known rows among them, for a decision."""
FAR_SHARE, FAR_COLUMNS = 0.25, 3
"""Share and number of columns in which a row must differ from all others; chosen by hand. If rows
are equal by chance, as with a few categories, many more rows differ in only one or two columns.
"""
LEAST_TRAINED = 256
"""Minimum number of training rows for a decision during a pass."""
LEAST_REPEATED, KNOWN_REPEATED = 5, 0.5
KNOWN_ONCE = 0.2
"""Share of known rows among unrepeated evaluation rows, relative to the share expected for an
evaluation of the training data.
"""


def thinned(rows: Any) -> Any:
    """Return evenly spread columns of rows, shape (rows, ...), at most `MAX_COLUMNS`."""
    flat = rows.reshape(len(rows), -1)
    return flat[:, :: max(1, -(-flat.shape[1] // MAX_COLUMNS))]


class RowSample:
    """A sample of the rows of one evaluation, with their values.

    Attributes:
        room: number of rows that can still be kept.
    """

    def __init__(self) -> None:
        self._rows: list[Array] = []
        self._digests: list[Digests] = []
        self.room = MAX_ROWS

    def add(self, rows: Array, digest_R: Digests) -> None:
        """Store rows of a batch, shape (rows, ...), as long as there is `room`."""
        take = min(len(rows), self.room)
        if take <= 0:
            return
        self._rows.append(thinned(rows[:take]).copy())
        self._digests.append(digest_R[:take])
        self.room -= take

    def are_copies(self, known_N: Digests) -> bool:
        """Return whether rows are copies: far from all rows except equal ones."""
        if not self._rows:
            return False
        digest_R, first_R = np.unique(np.concatenate(self._digests), return_index=True)
        value_RC = np.concatenate(self._rows)[first_R]
        value_RC = value_RC[:, (value_RC != value_RC[0]).any(axis=0)]
        known = np.flatnonzero(np.isin(digest_R, known_N))
        columns = value_RC.shape[1]
        if len(digest_R) < LEAST_ROWS or len(known) < LEAST_KNOWN or columns < FAR_COLUMNS:
            return False
        nearest = []
        for row in known.tolist():
            differing_R = (value_RC != value_RC[row]).sum(axis=1)
            differing_R[row] = columns
            nearest.append(int(differing_R.min()))
        return bool(np.median(nearest) >= max(FAR_COLUMNS, FAR_SHARE * columns))


def only_repeated_are_known(known_N: Bools, count_N: np.ndarray, trained_rows: int) -> bool:
    """Return whether the known rows of an evaluation are mostly repeated rows.

    This cannot be the case for an evaluation of the training data: after part of a pass, all kinds
    of rows would be equally known. So this can be determined before all training data is known.

    Args:
        known_N: which of the distinct rows were trained on.
        count_N: how often each occurs in the evaluation.
        trained_rows: number of rows trained on so far, counting repetitions.
    """
    repeated_N = count_N > 1
    once = known_N[~repeated_N]
    if trained_rows < LEAST_TRAINED or repeated_N.sum() < LEAST_REPEATED or len(once) < LEAST_ROWS:
        return False
    expected = min(1.0, trained_rows / int(count_N.sum()))
    return bool(
        known_N[repeated_N].mean() >= KNOWN_REPEATED and once.mean() <= KNOWN_ONCE * expected
    )
