"""Counts by power of two, against counting one by one."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.statistics.oracle import counted_exponents

from mothtrap.statistics.dtypes import EXTENDED
from mothtrap.statistics.exponents import BINS, EDGES, count_exponents
from mothtrap.statistics.numpy import count_exponents_of

FLOATS = arrays.arrays(
    np.float64, arrays.array_shapes(max_dims=2, min_side=0), elements=st.floats(allow_nan=True)
)


@given(FLOATS)
def test_every_finite_value_but_zero_is_in_one_bin(values: np.ndarray) -> None:
    assert np.array_equal(count_exponents(values), counted_exponents(values))
    assert count_exponents(values).sum() == np.count_nonzero(np.isfinite(values) & (values != 0))


@given(FLOATS, FLOATS)
def test_counts_of_parts_add_up(first: np.ndarray, second: np.ndarray) -> None:
    whole = np.concatenate([first.reshape(-1), second.reshape(-1)])
    parts = count_exponents_of([first, second])
    assert np.array_equal(parts.sum(0), count_exponents(whole))


def test_powers_of_two_open_their_bin() -> None:
    assert count_exponents(EDGES)[1].tolist() == [1] * BINS
    assert count_exponents(-EDGES)[0].tolist() == [1] * BINS
    assert count_exponents(np.nextafter(EDGES, 0))[1].tolist() == [2, *[1] * (BINS - 2), 0]


def test_both_ends_are_open() -> None:
    tiny, huge = np.array([5e-324, -1e-45, 2.0**-1022]), np.array([1.7e308, -1e30])
    assert count_exponents(tiny)[:, 0].tolist() == [1, 2]
    assert count_exponents(huge)[:, -1].tolist() == [1, 1]


def test_long_arrays_are_counted_in_whole() -> None:
    values = np.random.default_rng(0).normal(size=600_000).astype(np.float32)
    assert count_exponents(values).sum() == np.count_nonzero(values)
    assert np.array_equal(count_exponents(values[::3]), counted_exponents(values[::3]))


@pytest.mark.parametrize("name", EXTENDED)
def test_every_bit_pattern_of_a_small_float_is_counted(name: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16) if name == "bfloat16" else np.arange(256)
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = bits.astype(f"u{dtype.itemsize}").view(dtype)
    with np.errstate(invalid="ignore"):  # of NaN
        wanted = counted_exponents(values.astype(float))
    assert np.array_equal(count_exponents(values), wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint64, np.bool_, ">f4", np.float32])
def test_every_type_is_counted_by_value(dtype: str) -> None:
    values = np.array([0, 1, 1, 1]).astype(dtype)
    assert count_exponents(values)[1, 40] == 3


def test_complex_numbers_are_their_parts() -> None:
    values = np.array([[3 - 4j, complex(0, math.inf)]])
    assert np.array_equal(count_exponents(values), counted_exponents(np.array([3.0, -4.0])))
    assert np.array_equal(count_exponents(values.T), count_exponents(values))
