"""The first segment equals that of SliceLine, if it is installed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mothtrap.behavior.segments import search
from mothtrap.behavior.table import Table

slicefinder = pytest.importorskip("sliceline.slicefinder")


@pytest.mark.parametrize("seed", range(3))
def test_the_weakest_pair_of_values_is_that_of_sliceline(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 4, (3000, 6)), columns=list("abcdef"))
    in_segment_R = ((X.b == 1) & (X.e == 2)).to_numpy()
    error_R = (rng.random(3000) < np.where(in_segment_R, 0.6, 0.1)).astype(float)
    oracle = slicefinder.Slicefinder(alpha=0.95, k=1, max_l=2, min_sup=30, verbose=False)
    oracle.fit(X.to_numpy(), error_R)
    wanted = {
        (name, value)
        for name, value in zip(X.columns, oracle.top_slices_[0], strict=True)
        if value is not None
    }
    assert wanted == {("b", 1), ("e", 2)}
    found = next(search(Table(X), error_R, most=1, longest=2))
    assert {(each.column, each.low) for each in found.segment.literals} == wanted
