from __future__ import annotations

import math

import numpy as np
import pytest

from mothtrap.tracing.describe import layers

ABOUT = {"step": 3, "layer": "0", "layer_type": "Linear", "shape": (64, 3), "gain": 1.5}
OUTPUT = {"step": 3, "root": "Net", "inputs_differ": True}


def test_data_have_the_numbers_of_their_values_and_the_names_of_the_adapter() -> None:
    table = np.random.default_rng(0).normal(size=(64, 3))
    fact = layers.data_taken(table, grid=False, **ABOUT)
    assert fact is not None
    assert (fact.step, fact.layer, fact.gain, fact.grid) == (3, "0", 1.5, False)
    assert fact.mean == pytest.approx(table.mean())
    assert len(fact.partners) == 3


def test_channels_have_no_correlations() -> None:
    fact = layers.data_taken(np.random.default_rng(0).normal(size=(64, 3)), grid=True, **ABOUT)
    assert fact is not None
    assert (fact.grid, fact.partners) == (True, ())


def test_what_is_not_finite_is_not_described() -> None:
    assert layers.data_taken(np.full((4, 3), math.nan), grid=False, **ABOUT) is None
    assert layers.output_spread(np.full((4, 3), math.inf), **OUTPUT) is None
    assert layers.spread_fact((math.nan, 1.0, 1.0), place="", shape=(4, 3), **OUTPUT) is None


def test_an_output_differs_between_rows() -> None:
    fact = layers.output_spread(np.array([[0.0], [2.0]]), location="a.py:1", **OUTPUT)
    assert fact is not None
    assert (fact.spread, fact.largest, fact.shape) == (1.0, 2.0, (2, 1))
    assert (fact.place, fact.location, fact.inputs_differ) == ("", "a.py:1", True)


def test_one_row_cannot_be_compared() -> None:
    assert layers.output_spread(np.ones((1, 3)), **OUTPUT) is None
