from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.tracing.describe.loss_calls import BINARY, CLASSES, RNG, called, squared

from mothtrap.tracing.describe import call_baselines, loss_numbers
from mothtrap.tracing.describe.loss_numbers import Called


def test_hard_labels_are_counted() -> None:
    assert loss_numbers.label_counts(CLASSES) == (2, 1, 1)
    assert loss_numbers.label_counts(BINARY) == (1, 2)
    assert loss_numbers.label_counts(squared([0.5])) is None


def guess(target: Any, operation: str = "cross_entropy", **more: Any) -> float | None:
    target = np.asarray(target)
    one = Called(
        operation=operation, chain=(), target=target, prediction=target, **{"classes": None, **more}
    )
    return call_baselines.baseline_of(one).loss()


def test_the_best_constant_prediction_of_classes_has_the_entropy_of_their_shares() -> None:
    assert guess([0, 1], classes=2) == pytest.approx(math.log(2))
    share_K = 0.8 * np.array([0.75, 0.25]) + 0.1
    smooth = guess([0, 0, 0, 1], classes=2, smoothing=0.2)
    assert smooth == pytest.approx(-(share_K * np.log(share_K)).sum())
    assert guess([0, 1], classes=2, is_weighted=True) is None


def test_that_of_numbers_has_their_variance_within_columns() -> None:
    numbers = RNG.normal(size=(50, 3)) + np.array([0.0, 10.0, 100.0])
    squared = guess(numbers, "elementwise", squared=0.5)
    assert squared == pytest.approx(0.5 * numbers.var(axis=0).mean())
    assert guess(numbers, "elementwise") is None


def test_that_of_probabilities_has_the_mean_entropy_of_columns() -> None:
    found = guess([[0.0, 1.0], [1.0, 1.0]], "binary_cross_entropy", classes=2)
    assert found == pytest.approx(math.log(2) / 2)


def test_equal_predictions_have_no_spread() -> None:
    assert loss_numbers.prediction_spread(called([0, 1], [[0.2, 0.3, 0.5]] * 2)) == 0.0
