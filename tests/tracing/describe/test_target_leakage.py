from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mothtrap.tracing.describe.target_leakage import telling_columns

ROWS, COLUMNS = 64, 6
RNG = np.random.default_rng(0)
Array = npt.NDArray[Any]


@pytest.fixture
def table() -> Array:
    return RNG.normal(size=(ROWS, COLUMNS))


@pytest.mark.parametrize("scale", [(1.0, 0.0), (-3.0, 20.0)])
def test_a_copy_of_a_number_tells_it(table: Array, scale: tuple[float, float]) -> None:
    y = RNG.normal(size=(ROWS, 1))
    table[:, 4] = scale[0] * y[:, 0] + scale[1]
    assert telling_columns([table], y) == ((4,), COLUMNS)


def test_a_copy_of_a_number_with_little_noise_tells_it(table: Array) -> None:
    y = RNG.normal(size=ROWS)
    table[:, 5] = y + 0.001 * RNG.normal(size=ROWS)
    assert telling_columns([table], y) == ((5,), COLUMNS)


def test_a_number_with_noise_is_a_good_feature(table: Array) -> None:
    y = RNG.normal(size=ROWS)
    table[:, 4] = y + 0.1 * RNG.normal(size=ROWS)
    assert telling_columns([table], y) == ((), COLUMNS)


def test_the_last_values_of_a_smooth_series_are_no_leak() -> None:
    values = np.sin(np.arange(80) / 20 + 1.2)
    windows = np.lib.stride_tricks.sliding_window_view(values, 12)[:-1]
    assert telling_columns([windows], values[12:]) == ((), 12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("width", [4, 150])
def test_a_value_of_a_smooth_window_that_is_the_target_tells_it(width: int, dtype: type) -> None:
    """Targets of a series that begin with the first value of each window, in another unit."""
    series = np.cumsum(RNG.normal(size=(400, 10)), axis=0)
    series -= series.mean(axis=0)
    windows = np.lib.stride_tricks.sliding_window_view(series, width, axis=0)[:256:3]
    windows = windows.transpose(0, 2, 1).astype(dtype)
    y = series[: 3 * len(windows) : 3, 1] * 8.4 + 9.4
    assert telling_columns([windows], y) == ((1,), width * 10)
    later = series[width : width + 256 : 3, 1]
    assert telling_columns([windows], later[: len(windows)]) == ((), width * 10)


def test_a_wide_table_is_not_searched_for_classes() -> None:
    images = RNG.uniform(size=(ROWS, 40, 40))
    assert telling_columns([images], np.arange(ROWS) % 4) is None


def test_a_pixel_that_holds_the_class_tells_it() -> None:
    images, y = RNG.uniform(size=(ROWS, 1, 8, 8)), np.arange(ROWS) % 10
    images[:, 0, 0, 3] = y / 10
    assert telling_columns([images], y) == ((3,), 64)


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_column_that_holds_the_class_tells_it(table: Array, classes: int, noise: float) -> None:
    y = np.arange(ROWS) % classes
    table[:, 1] = y + noise * RNG.normal(size=ROWS)
    assert telling_columns([table], y) == ((1,), COLUMNS)


def test_one_column_for_each_class_tells_it(table: Array) -> None:
    y = np.arange(ROWS) % 4
    table[:, 2:] = np.eye(4)[y]
    assert telling_columns([table], y) == ((2, 3, 4, 5), COLUMNS)


def test_a_column_for_one_of_several_classes_is_a_good_feature(table: Array) -> None:
    y = np.arange(ROWS) % 4
    table[:, 2] = y == 1
    assert telling_columns([table], y) == ((), COLUMNS)


def test_separated_classes_are_no_leak(table: Array) -> None:
    y = np.arange(ROWS) % 2
    assert telling_columns([table + 5 * y[:, None], table], y) == ((), COLUMNS)


@pytest.mark.parametrize(
    ("inputs", "target"),
    [
        pytest.param([RNG.normal(size=(64, 2))], RNG.normal(size=64), id="two columns"),
        pytest.param([RNG.normal(size=(8, 6))], RNG.normal(size=8), id="few rows"),
        pytest.param(
            [RNG.normal(size=(64, 6))], RNG.normal(size=(64, 6)), id="as many targets as inputs"
        ),
        pytest.param([np.zeros((64, 3, 64, 64))], RNG.normal(size=64), id="large images"),
        pytest.param([np.arange(384).reshape(64, 6)], RNG.normal(size=64), id="tokens"),
        pytest.param([np.full((64, 6), np.nan)], RNG.normal(size=64), id="not finite"),
        pytest.param([RNG.normal(size=(64, 6))], np.zeros(64), id="one target"),
        pytest.param([], np.zeros(64), id="no inputs"),
    ],
)
def test_nothing_is_said(inputs: list[Array], target: Array) -> None:
    assert telling_columns(inputs, target) is None


def test_constant_columns_tell_nothing(table: Array) -> None:
    table[:, 3] = 1.0
    assert telling_columns([table], RNG.normal(size=ROWS)) == ((), COLUMNS)
    assert telling_columns([table], np.arange(ROWS) % 3) == ((), COLUMNS)
