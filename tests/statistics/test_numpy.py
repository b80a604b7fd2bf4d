from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.statistics.oracle import VALUE_STATISTICS, assert_close, expected

from mothtrap.core.errors import UnknownNameError
from mothtrap.statistics.numpy import digest, summarize
from mothtrap.statistics.summary import COLUMN, FIELDS, columns_for

dtypes = st.one_of(
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.boolean_dtypes(),
)
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))
)


@given(st.lists(arrays, max_size=4))
@settings(deadline=None)
def test_rows_equal_the_oracle(values):
    rows = summarize(values, VALUE_STATISTICS)
    assert rows.shape == (len(values), len(FIELDS))
    for row, array in zip(rows, values, strict=True):
        assert_close(row, expected(array), relative=1e-9)


@pytest.mark.parametrize("size", [1e-30, 1e-320, 1e30, 1e300])
def test_squares_may_leave_the_range(size):
    array = np.array([3.0, -4.0, 0.0, 1.0]) * size
    assert_close(summarize([array], VALUE_STATISTICS)[0], expected(array), relative=1e-3)


def test_a_sum_beyond_float64_does_not_hide_the_mean():
    array = np.full(10, 1.7e308)
    row = summarize([array], VALUE_STATISTICS)[0]
    assert row[COLUMN["mean"]] == pytest.approx(1.7e308)
    assert row[COLUMN["deviation_l2"]] <= 1e293


def test_a_small_spread_about_a_large_mean_is_seen():
    array = np.random.default_rng(0).normal(1e6, 1e-3, 10_000)
    row = summarize([array], ("std",))[0]
    assert row[COLUMN["deviation_l2"]] / 100 == pytest.approx(array.std(), rel=1e-9)


def test_blocks_of_a_large_array_merge():
    array = np.random.default_rng(0).normal(5.0, 1.0, 600_000).astype(np.float32)
    array[[0, 300_000, -1]] = np.nan, np.inf, 0.0
    assert_close(summarize([array], VALUE_STATISTICS)[0], expected(array))


def test_a_complex_array_is_its_parts():
    array = np.array([[1 + 2j, 3 - 4j]])
    wanted = expected(np.array([1.0, 2.0, 3.0, -4.0]))
    assert_close(summarize([array[:, ::-1]], VALUE_STATISTICS)[0], wanted)


@given(arrays, st.sets(st.sampled_from(VALUE_STATISTICS)))
@settings(deadline=None)
def test_what_is_asked_for_is_filled_whatever_else_is(array, statistics):
    thin, full = summarize([array], statistics)[0], summarize([array], VALUE_STATISTICS)[0]
    for column in columns_for(statistics):
        assert thin[COLUMN[column]] == full[COLUMN[column]] or np.isnan(full[COLUMN[column]])


def test_words_are_refused():
    with pytest.raises(ValueError, match="could not convert"):
        summarize([np.array(["a"])], ("mean",))
    with pytest.raises(UnknownNameError, match="did you mean 'mean'"):
        summarize([], ("maen",))


def test_a_digest_binds_bytes_type_and_shape():
    array = np.arange(6, dtype=np.int32)
    same = np.arange(12, dtype=np.int32)[:6].copy()
    others = [array[::-1], array.reshape(2, 3), array.astype(np.int64), array.view(np.uint32)]
    assert digest(array) == digest(same) == digest(array.reshape(2, 3).reshape(-1))
    assert len({digest(a) for a in [array, *others]}) == 5
    assert digest(np.empty(0)) != digest(np.empty((0, 1)))
