from __future__ import annotations

import math

import numpy as np
import pytest

from mothtrap.tracing.describe import layer_numbers

RNG = np.random.default_rng(0)


def test_data_are_described_by_feature() -> None:
    table = RNG.normal(size=(64, 3)) * [1, 100, 1] + [0, 0, 5]
    table[:, 2] = 7.0
    found = layer_numbers.data_taken(table, grid=False)
    assert found is not None
    assert (found["rows"], found["features"]) == (64, 3)
    assert found["feature_stds"][1] == pytest.approx(table[:, 1].std())
    assert found["feature_ties"][2] == 1.0
    assert found["mean"] == pytest.approx(table.mean())


def test_a_copy_of_a_feature_is_its_partner() -> None:
    table = RNG.normal(size=(64, 3))
    table[:, 2] = -2 * table[:, 0]
    found = layer_numbers.data_taken(table, grid=False)
    assert found is not None
    assert found["partners"][2] == 0
    assert found["correlations"][2] == pytest.approx(1.0)
    assert "partners" not in (layer_numbers.data_taken(table, grid=True) or {})


@pytest.mark.parametrize("data", [np.array([[1.0, np.nan]]), np.zeros(4), np.zeros((0, 3))])
def test_what_is_no_finite_batch_is_not_described(data: np.ndarray) -> None:
    assert layer_numbers.data_taken(data, grid=False) is None


def test_spread_is_between_rows() -> None:
    same = np.ones((5, 1)) * [3.0, 4.0]
    assert layer_numbers.spread(same) == (0.0, pytest.approx(math.sqrt(12.5)), 0.0)
    between, _, largest = layer_numbers.spread(np.array([[0.0], [2.0]])) or (0, 0, 0)
    assert (between, largest) == (1.0, 2.0)
    assert layer_numbers.spread(np.ones((1, 3))) is None


def test_units_that_never_fire_are_inactive() -> None:
    gave = np.array([[0.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    asleep = layer_numbers.inactive_units(gave)
    assert asleep is not None
    assert asleep.tolist() == [True, False, False]


@pytest.mark.parametrize("function", ["sigmoid", "tanh"])
def test_inputs_of_units_are_worked_out_from_what_they_gave(function: str) -> None:
    given = np.array([[-30.0, 0.5], [-6.5, 0.5], [3.5, 0.5]])
    gave = 1 / (1 + np.exp(-given)) if function == "sigmoid" else np.tanh(given)
    units, counts = layer_numbers.unit_inputs(gave, function) or (0, ())
    gaps = len(layer_numbers.EDGES) + 1
    assert units == 2
    assert len(counts) == 2 * gaps
    first = np.array(counts[:gaps])
    for value in (-6.5, 3.5):
        assert first[np.searchsorted(layer_numbers.EDGES, value)] == 1
    assert first[0] == 1  # -30 is beyond the last edge, whatever rounding does to it
    assert counts[gaps + int(np.searchsorted(layer_numbers.EDGES, 0.5))] == 3


def test_saturated_units_lie_at_the_ends_in_all_rows() -> None:
    gave = np.array([[0.999, 0.999], [0.001, 0.5]])
    found = layer_numbers.saturated_units(gave, "sigmoid")
    assert found is not None
    assert found.tolist() == [True, False]


@pytest.mark.parametrize("values", [[np.inf, 1.0], [np.nan], []])
def test_what_is_not_finite_has_no_central_range(values: list[float]) -> None:
    assert layer_numbers.central_range(np.array(values)) is None


def test_the_central_range_leaves_out_the_ends() -> None:
    assert layer_numbers.central_range(np.arange(101.0)) == pytest.approx(90.0)
