from __future__ import annotations

import pytest
import torch

from mothtrap.adapters.torch.data.target_leakage import telling_columns

ROWS, COLUMNS = 64, 6


@pytest.fixture
def table() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS)


@pytest.mark.parametrize("scale", [(1.0, 0.0), (-3.0, 20.0)])
def test_a_copy_of_a_number_tells_it(table: torch.Tensor, scale: tuple[float, float]) -> None:
    y = torch.randn(ROWS, 1)
    table[:, 4] = scale[0] * y[:, 0] + scale[1]
    assert telling_columns([table], y) == ((4,), COLUMNS)


def test_a_number_with_noise_is_a_good_feature(table: torch.Tensor) -> None:
    y = torch.randn(ROWS)
    table[:, 4] = y + 0.1 * torch.randn(ROWS)
    assert telling_columns([table], y) == ((), COLUMNS)


def test_the_last_values_of_a_smooth_series_are_no_leak() -> None:
    time = torch.arange(80) / 20
    values = torch.sin(time + 3 * torch.rand(1))
    windows = values.unfold(0, 12, 1)[:-1]
    assert telling_columns([windows], values[12:]) == ((), 12)


def test_a_pixel_that_holds_the_class_tells_it() -> None:
    images, y = torch.rand(ROWS, 1, 8, 8), torch.arange(ROWS) % 10
    images[:, 0, 0, 3] = y / 10
    assert telling_columns([images], y) == ((3,), 64)


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_column_that_holds_the_class_tells_it(
    table: torch.Tensor, classes: int, noise: float
) -> None:
    y = torch.arange(ROWS) % classes
    table[:, 1] = y + noise * torch.randn(ROWS)
    assert telling_columns([table], y) == ((1,), COLUMNS)


def test_one_column_for_each_class_tells_it(table: torch.Tensor) -> None:
    y = torch.arange(ROWS) % 4
    table[:, 2:] = torch.nn.functional.one_hot(y, 4)
    assert telling_columns([table], y) == ((2, 3, 4, 5), COLUMNS)


def test_a_column_for_one_of_several_classes_is_a_good_feature(table: torch.Tensor) -> None:
    y = torch.arange(ROWS) % 4
    table[:, 2] = (y == 1).float()
    assert telling_columns([table], y) == ((), COLUMNS)


def test_separated_classes_are_no_leak(table: torch.Tensor) -> None:
    y = torch.arange(ROWS) % 2
    assert telling_columns([table + 5 * y[:, None], table], y) == ((), COLUMNS)


@pytest.mark.parametrize(
    ("inputs", "target"),
    [
        pytest.param([torch.randn(64, 2)], torch.randn(64), id="two columns"),
        pytest.param([torch.randn(8, 6)], torch.randn(8), id="few rows"),
        pytest.param([torch.randn(64, 6)], torch.randn(64, 6), id="as many targets as inputs"),
        pytest.param([torch.randn(64, 3, 32, 32)], torch.randn(64), id="large images"),
        pytest.param([torch.arange(384).reshape(64, 6)], torch.randn(64), id="tokens"),
        pytest.param([torch.full((64, 6), float("nan"))], torch.randn(64), id="not finite"),
        pytest.param([torch.randn(64, 6)], torch.zeros(64), id="one target"),
        pytest.param([], torch.zeros(64), id="nothing"),
    ],
)
def test_nothing_is_said(inputs: list[torch.Tensor], target: torch.Tensor) -> None:
    assert telling_columns(inputs, target) is None


def test_constant_columns_tell_nothing(table: torch.Tensor) -> None:
    table[:, 3] = 1.0
    assert telling_columns([table], torch.randn(ROWS)) == ((), COLUMNS)
    assert telling_columns([table], torch.arange(ROWS) % 3) == ((), COLUMNS)
