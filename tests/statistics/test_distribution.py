"""Spread of values, against counting one by one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mothtrap.statistics.distribution import DISTRIBUTIONS, QUANTILES, SHAPES, quantiles

FLOATS = arrays.arrays(
    np.float64, arrays.array_shapes(max_dims=2, min_side=0), elements=st.floats(allow_nan=True)
)


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.bool_]
)
def test_every_type_is_taken_by_value(dtype: type) -> None:
    values = np.array([0, 1, 1, 1]).astype(dtype)
    assert quantiles(values)[[0, -1]].tolist() == [0.0, 1.0]


def test_of_complex_numbers_the_modulus_counts() -> None:
    assert quantiles(np.array([3 + 4j])).tolist() == [5.0] * len(QUANTILES)


@given(FLOATS)
def test_quantiles_are_of_the_finite_values(values: np.ndarray) -> None:
    finite = np.sort(values[np.isfinite(values)].reshape(-1))
    with np.errstate(all="ignore"):
        found = quantiles(values)
    if not len(finite):
        assert np.isnan(found).all()
        return
    assert (found[0], found[-1]) == (finite[0], finite[-1])
    if len(finite) % 2 == 1 and len(finite) < 100:
        assert found[QUANTILES.index(0.5)] == finite[len(finite) // 2]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_results_have_the_shape_and_type_that_is_told(name: str) -> None:
    found = DISTRIBUTIONS[name](np.zeros((0, 3)))
    assert (found.shape, found.dtype.name) == SHAPES[name]
