"""Buckets keep the extremes of their rows, whatever these are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.web.buckets import INF, NAN, NEGATIVE_INF, bad_bits, joined, width_for

VALUES = st.floats(allow_nan=True, allow_infinity=True)
ROWS = st.lists(st.tuples(st.integers(0, 5000), VALUES), max_size=300)


@given(ROWS, st.integers(2, 64))
def test_buckets_have_the_extremes_of_their_rows(rows: list[tuple[int, float]], most: int) -> None:
    step_N = np.array([step for step, _ in rows], np.int64)
    value_N = np.array([value for _, value in rows])
    buckets = joined(step_N, value_N, bad_bits(value_N), most)
    assert len(buckets.step_B) <= most
    bucket_N = step_N // buckets.width
    assert sorted(set(bucket_N.tolist())) == (buckets.step_B // buckets.width).tolist()
    for place, step in enumerate(buckets.step_B.tolist()):
        inside = value_N[bucket_N == step // buckets.width]
        finite = inside[np.isfinite(inside)]
        if len(finite):
            assert buckets.min_B[place] == finite.min()
            assert buckets.max_B[place] == finite.max()
            assert buckets.min_B[place] <= buckets.last_B[place] <= buckets.max_B[place]
        else:
            assert np.isnan([buckets.min_B[place], buckets.last_B[place]]).all()
        assert bool(buckets.bad_B[place] & NAN) == bool(np.isnan(inside).any())
        assert bool(buckets.bad_B[place] & INF) == bool((inside == np.inf).any())
        assert bool(buckets.bad_B[place] & NEGATIVE_INF) == bool((inside == -np.inf).any())


@given(st.integers(2, 400), st.integers(2, 64))
def test_a_bucket_that_is_full_never_changes_while_its_width_lasts(rows: int, most: int) -> None:
    step_N = np.arange(rows, dtype=np.int64)
    value_N = np.sin(step_N * 1.7)
    bits_N = bad_bits(value_N)
    before = joined(step_N, value_N, bits_N, most)
    more = np.append(step_N, rows)
    values = np.append(value_N, 9.0)
    after = joined(more, values, bad_bits(values), most)
    if after.width == before.width:
        full = len(before.step_B) - 1
        np.testing.assert_array_equal(after.step_B[:full], before.step_B[:full])
        np.testing.assert_array_equal(after.max_B[:full], before.max_B[:full])


def test_widths_are_powers_of_two_that_just_fit() -> None:
    assert width_for(0, 1000, 1000) == 1
    assert width_for(0, 1001, 1000) == 2
    assert width_for(0, 1_000_000, 1200) == 1024
    assert width_for(5, 13, 8) == 1


def test_a_million_rows_of_constant_steps_stay_in_order() -> None:
    step_N = np.arange(1_000_000, dtype=np.int64)
    buckets = joined(step_N, step_N.astype(np.float64), np.zeros(1_000_000, np.uint8), 1200)
    assert len(buckets.step_B) == 977
    np.testing.assert_array_equal(buckets.min_B, buckets.step_B)
    np.testing.assert_array_equal(buckets.last_B, buckets.max_B)
