from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.statistics.oracle import assert_close, expected

from mothtrap.core.errors import UnknownNameError
from mothtrap.statistics import EMPTY, FIELDS, STATISTICS, WIDTH, columns_for, derive, merge
from mothtrap.statistics.summary import COLUMN, merge_segments, segment_norms

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
parts = st.lists(st.lists(any_float, max_size=6), min_size=1, max_size=6)


def rows_of(values: list[list[float]]) -> np.ndarray:
    return np.stack([expected(np.array(part)) for part in values])


@given(parts)
def test_a_merge_of_parts_is_the_summary_of_the_whole(values):
    whole = np.array([v for part in values for v in part])
    # Parts beyond half of float64's range cannot hold their own abs_sum.
    whole_row = expected(whole)
    if np.isfinite(whole_row[COLUMN["abs_sum"]]) and np.isfinite(whole_row[COLUMN["deviation_l2"]]):
        assert_close(merge(rows_of(values)), whole_row, relative=1e-9)


@given(parts, st.randoms(use_true_random=False))
def test_a_merge_does_not_depend_on_the_order(values, random):
    shuffled = random.sample(values, len(values))
    first, second = merge(rows_of(values)), merge(rows_of(shuffled))
    if np.isfinite(first[[COLUMN["abs_sum"], COLUMN["deviation_l2"]]]).all():
        assert_close(first, second, relative=1e-9)


def test_segments_merge_like_one_at_a_time():
    rows = rows_of([[1.0, 2.0], [np.nan], [], [0.0, -5.0, np.inf], [7.0]])
    merged = merge_segments(rows, np.array([0, 2, 4]))
    for row, (start, end) in zip(merged, ((0, 2), (2, 4), (4, 5)), strict=True):
        np.testing.assert_array_equal(row, merge(rows[start:end]))


@pytest.mark.parametrize("column", FIELDS)
def test_a_column_missing_in_a_part_is_missing_in_the_whole(column):
    rows = rows_of([[1.0, 2.0], [3.0], [4.0, np.nan]])
    rows[1, COLUMN[column]] = np.nan
    assert np.isnan(merge(rows)[COLUMN[column]])


def test_a_part_without_finite_elements_hides_nothing():
    row = merge(rows_of([[np.nan, np.inf], [3.0]]))
    assert row[COLUMN["min"]] == row[COLUMN["max"]] == row[COLUMN["mean"]] == 3.0


def test_shares_and_ratios_survive_only_a_single_row():
    row = expected(np.array([1.0]))
    row[[COLUMN["inactive"], COLUMN["update_ratio"]]] = 0.5, 1e-3
    np.testing.assert_array_equal(merge(row[None]), row)
    assert np.isnan(merge(np.stack([row, row]))[COLUMN["inactive"]])


def test_a_merge_of_nothing_is_empty():
    np.testing.assert_array_equal(merge(np.empty((0, WIDTH))), EMPTY)


def test_empty_is_read_only_and_says_nothing():
    assert np.isnan(EMPTY).all()
    with pytest.raises(ValueError, match="read-only"):
        EMPTY[0] = 1.0


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_derived_statistics_agree_with_numpy(values):
    row = expected(np.array(values))[None]
    scale = max(map(abs, values)) or 1.0
    scaled = np.array(values) / scale
    close = {"rtol": 1e-9, "atol": 1e-12}
    with np.errstate(over="ignore"):
        assert derive(row, "abs_max")[0] == max(map(abs, values))
        if np.isfinite(row).all(where=np.arange(WIDTH) < COLUMN["inactive"]):
            np.testing.assert_allclose(derive(row, "std")[0] / scale, scaled.std(), **close)
            np.testing.assert_allclose(
                derive(row, "abs_mean")[0] / scale, np.abs(scaled).mean(), **close
            )


@pytest.mark.parametrize("statistic", STATISTICS)
def test_every_statistic_is_derived_from_its_columns_alone(statistic):
    full = np.arange(1.0, WIDTH + 1)[None] * np.array([[100.0] + [1.0] * (WIDTH - 1)])
    thin = np.full_like(full, np.nan)
    for column in columns_for([statistic]):
        thin[0, COLUMN[column]] = full[0, COLUMN[column]]
    assert derive(thin, statistic) == derive(full, statistic)
    assert np.isfinite(derive(thin, statistic)).all()


@pytest.mark.parametrize("statistic", STATISTICS)
def test_what_was_not_captured_is_nan(statistic):
    assert np.isnan(derive(EMPTY[None], statistic)).all()


def test_no_finite_element_gives_nan_and_no_warning():
    row = expected(np.array([np.nan, np.inf]))[None]
    for statistic in ("min", "max", "mean", "std", "abs_mean", "abs_max", "l2"):
        assert np.isnan(derive(row, statistic)[0])
    assert row[0, COLUMN["l2"]] == 0.0  # the stored values still add up


def test_the_norm_is_of_the_finite_elements_and_0_where_there_is_nothing():
    rows = rows_of([[3.0, np.nan, 4.0], [0.0, 0.0], [], [np.inf]])
    np.testing.assert_array_equal(derive(rows, "l2"), [5.0, 0.0, 0.0, np.nan])


def test_an_unknown_statistic_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'abs_mean'"):
        derive(EMPTY[None], "absmean")
    with pytest.raises(UnknownNameError, match="no statistic 'mediam'"):
        columns_for(["mean", "mediam"])


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_norms_neither_overflow_nor_underflow(size):
    norms = segment_norms(np.array([3.0, 4.0, 0.0, 12.0]) * size, np.array([0, 2, 3]))
    np.testing.assert_allclose(norms / size, [5.0, 0.0, 12.0], rtol=1e-12)
