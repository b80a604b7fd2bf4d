"""Effect of a column on the outputs of a model."""

from __future__ import annotations

import numpy as np

from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table


def changes_output(
    subject: Subject,
    rows: Table,
    name: str,
    before: np.typing.NDArray[np.float64],
    rng: np.random.Generator,
) -> bool:
    """Return whether any output changes when a column is permuted.

    Args:
        subject: The probed model and its rows.
        rows: Rows in which the column is permuted.
        name: Name of the column.
        before: Predictions for the rows, (R, K) or (R, 1).
        rng: Random generator for the permutation.
    """
    given_R = np.asarray(rows.column(name).given_R)
    after = subject.ask(rows.replaced({name: given_R[rng.permutation(len(rows))]}))
    return not np.allclose(after, before, rtol=1e-9, atol=1e-12, equal_nan=True)
