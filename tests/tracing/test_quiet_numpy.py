"""Descriptions of what a script computes neither warn nor raise, whatever the values are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mothtrap.tracing import layer_looks, loss_looks
from mothtrap.tracing.loss_looks import Called, TargetsInOrder
from mothtrap.tracing.quiet_numpy import quiet

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
        loss_looks.sample(called, [values], columns=True)
        loss_looks.prediction_spread(called)
        loss_looks.label_counts(called)
        loss_looks.baseline_of(called)
        TargetsInOrder("train.py:1", None).add(0, called)


LOOKS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda values: layer_looks.data_taken(values, grid=False),
    layer_looks.sizes,
    layer_looks.spread,
    layer_looks.central_range,
    layer_looks.rows_differ,
    layer_looks.inactive_units,
    lambda values: layer_looks.saturated_units(values, "sigmoid"),
    lambda values: layer_looks.saturated_units(values, "tanh"),
    lambda values: layer_looks.unit_inputs(values, "sigmoid"),
    lambda values: layer_looks.unit_inputs(values, "tanh"),
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
