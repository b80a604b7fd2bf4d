"""Descriptions of a script's values neither warn nor raise, whatever the values are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mothtrap.tracing.describe import call_baselines, layer_numbers, loss_numbers, target_samples
from mothtrap.tracing.describe.loss_numbers import Called
from mothtrap.tracing.describe.quiet_numpy import quiet
from mothtrap.tracing.describe.target_order import TargetsInOrder

SHAPES = ((8, 3), (1, 3), (8,), (0, 3), (4, 5, 3))


def arrays() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for dtype in ("float16", "float32", "float64"):
        largest = np.finfo(dtype).max
        for shape in SHAPES:
            usual = rng.normal(size=shape).astype(dtype)
            for value in (np.nan, np.inf, -np.inf, largest, -largest, 0.0):
                yield np.full(shape, value, dtype)
                spotted = usual.copy()
                spotted.reshape(-1)[:1] = value
                spotted.reshape(-1)[-1:] = -value
                yield spotted


def of_loss(values: np.ndarray) -> None:
    for operation, classes in (("elementwise", None), ("cross_entropy", 3)):
        called = Called(
            operation=operation,
            chain=("tanh",),
            classes=classes,
            target=values,
            prediction=values,
            squared=1.0,
        )
        target_samples.sample(called, [values], columns=True)
        loss_numbers.prediction_spread(called)
        loss_numbers.label_counts(called)
        call_baselines.baseline_of(called)
        target_samples.add_to_order(TargetsInOrder("train.py:1", None), 0, called)


LOOKS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda values: layer_numbers.data_taken(values, grid=False),
    layer_numbers.sizes,
    layer_numbers.spread,
    layer_numbers.central_range,
    layer_numbers.rows_differ,
    layer_numbers.inactive_units,
    lambda values: layer_numbers.saturated_units(values, "sigmoid"),
    lambda values: layer_numbers.saturated_units(values, "tanh"),
    lambda values: layer_numbers.unit_inputs(values, "sigmoid"),
    lambda values: layer_numbers.unit_inputs(values, "tanh"),
    of_loss,
)


@pytest.mark.parametrize("asked", ["warn", "raise"])
@pytest.mark.parametrize("look", LOOKS)
def test_no_look_warns_or_raises(look: Callable[[np.ndarray], Any], asked: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all=asked):
        warnings.simplefilter("error")
        for values in arrays():
            look(values)


def test_the_settings_of_the_script_are_in_force_again() -> None:
    divide = quiet(lambda: np.ones(1) / 0)
    with np.errstate(divide="raise"):
        assert np.isinf(divide()).all()
        with pytest.raises(FloatingPointError):
            np.ones(1) / 0
