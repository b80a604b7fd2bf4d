"""Rows are encoded with the columns and levels of one table, whatever other rows contain."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.table import Table


def test_gaps_that_the_first_table_lacks_add_no_column() -> None:
    first = Table(pd.DataFrame({"a": [1.0, 2.0, 3.0], "kind": ["x", "y", "x"]}))
    later = Table(pd.DataFrame({"a": [1.0, np.nan], "kind": ["y", "z"]}))
    encoder = Encoder(first)
    assert encoder.one_hot(first).tolist() == [[1, 1, 0], [2, 0, 1], [3, 1, 0]]
    assert encoder.one_hot(later).tolist() == [[1, 0, 1], [1, 0, 0]]
    with_gaps = Encoder(later)
    assert with_gaps.one_hot(first).shape == (3, 4)
    assert with_gaps.one_hot(later)[:, 1].tolist() == [0, 1]
