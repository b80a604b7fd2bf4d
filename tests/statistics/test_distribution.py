"""How values are spread, against counting one by one."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mothtrap.statistics.distribution import (
    BINS,
    DISTRIBUTIONS,
    EDGES,
    QUANTILES,
    SHAPES,
    histogram,
    quantiles,
)

FLOATS = arrays.arrays(
    np.float64, arrays.array_shapes(max_dims=2, min_side=0), elements=st.floats(allow_nan=True)
)


def counted(values: np.ndarray) -> np.ndarray:
    """The histogram, value by value."""
    found = np.zeros((2, BINS), np.int64)
    for value in values.reshape(-1).tolist():
        if math.isfinite(value) and value:
            place = sum(abs(value) >= edge for edge in EDGES.tolist()) - 1
            found[int(value > 0), max(place, 0)] += 1
    return found


@given(FLOATS)
def test_every_finite_value_but_zero_is_in_one_bin(values: np.ndarray) -> None:
    assert np.array_equal(histogram(values), counted(values))


def test_powers_of_two_open_their_bin() -> None:
    assert histogram(EDGES)[1].tolist() == [1] * BINS
    assert histogram(-EDGES)[0].tolist() == [1] * BINS


def test_long_arrays_are_counted_in_whole() -> None:
    values = np.random.default_rng(0).normal(size=600_000).astype(np.float32)
    assert histogram(values).sum() == np.count_nonzero(values)


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.bool_]
)
def test_every_type_is_counted_by_value(dtype: type) -> None:
    values = np.array([0, 1, 1, 1]).astype(dtype)
    assert histogram(values)[1, 40] == 3
    assert quantiles(values)[[0, -1]].tolist() == [0.0, 1.0]


def test_of_complex_numbers_the_modulus_counts() -> None:
    assert histogram(np.array([3 + 4j]))[1].argmax() == 42  # 4 <= 5 < 8
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
