from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mothtrap.tracing.describe import call_baselines, loss_numbers
from mothtrap.tracing.describe.loss_numbers import Called
from mothtrap.tracing.describe.target_order import TargetsInOrder

RNG = np.random.default_rng(0)


def called(target: Any, prediction: Any, operation: str = "cross_entropy", **more: Any) -> Called:
    return Called(
        operation=operation,
        chain=more.get("chain", ("linear",)),
        classes=more.get("classes", 3),
        target=np.asarray(target),
        prediction=np.asarray(prediction, dtype=float),
    )


def squared(target: Any, chain: tuple[str, ...] = ("linear",)) -> Called:
    target = np.asarray(target, dtype=float)
    return called(target, np.zeros_like(target), "elementwise", chain=chain, classes=None)


CLASSES = called([0, 0, 2, 1], np.eye(3)[[0, 1, 2, 1]])
BINARY = called([[0], [1], [1]], [[0.2], [0.9], [0.4]], "binary_cross_entropy", classes=2)


def test_hard_labels_are_counted() -> None:
    assert loss_numbers.label_counts(CLASSES) == (2, 1, 1)
    assert loss_numbers.label_counts(BINARY) == (1, 2)
    assert loss_numbers.label_counts(squared([0.5])) is None


def test_confusion_is_labels_against_predictions() -> None:
    assert loss_numbers.sample(CLASSES, [], columns=False).confusion == (1, 1, 0, 0, 1, 0, 0, 0, 1)
    assert loss_numbers.sample(BINARY, [], columns=False).confusion == (1, 0, 1, 1)


def test_contradicted_labels_of_the_surest_quarter() -> None:
    sure, unsure = [0.9, 0.05, 0.05], [0.3, 0.4, 0.3]
    probability_RK = np.array([sure, unsure, sure, unsure, sure, unsure, unsure, unsure])
    assert loss_numbers.surest(probability_RK, np.array([0, 2, 1, 2, 0, 2, 2, 2])) == (2, 1)
    assert loss_numbers.surest(probability_RK[:3], np.array([1, 1, 1])) is None
    ignored = np.array([-100, 1, 1, 1, 0, 1, 1, 1])
    assert loss_numbers.surest(probability_RK, ignored) == (1, 1)
    column_R1 = np.array([[0.9], [0.1], [0.05], [0.6]])
    assert loss_numbers.surest(column_R1, np.array([1, 0, 1, 1])) == (1, 1)
    assert loss_numbers.sample(CLASSES, [], columns=False).surest == (1, 0)
    by_label = called(np.zeros((4, 2)), np.full((4, 2), 0.2), "binary_cross_entropy", classes=2)
    assert loss_numbers.sample(by_label, [], columns=False).surest is None


def test_targets_outside_of_the_last_operation_are_counted() -> None:
    found = loss_numbers.sample(squared([0.5, 3.0, -1.0, 1.0], ("sigmoid",)), [], columns=False)
    assert found.outside_share == 0.5
    assert (found.least, found.greatest) == (-1.0, 3.0)
    assert loss_numbers.sample(squared([5.0]), [], columns=False).outside_share is None


def test_a_column_that_gives_the_target_away_is_found_in_the_rows_that_were_kept_of_both() -> None:
    table = RNG.normal(size=(32, 4))
    for target in (3 * table[:, 2] + 1, 3 * table[:24, 2] + 1):
        found = loss_numbers.sample(squared(target), [table], columns=True)
        assert (found.telling_columns, found.columns) == ((2,), 4)
    assert loss_numbers.sample(squared(table[:, 2]), [], columns=True).telling_columns is None
    assert loss_numbers.sample(squared(table[:, 2]), [table], columns=False).columns is None


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


def test_the_order_of_targets_is_reported_after_eight_steps() -> None:
    order = TargetsInOrder("train.py:9", "train.py:9")
    for step in range(8):
        assert not order.is_due(step)
        loss_numbers.add_to_order(order, step, CLASSES)
        loss_numbers.add_to_order(order, step, CLASSES)  # a step of two micro-batches
    assert order.is_due(8)
    fact = order.fact(8, loader="fit", sampler="sequential")
    assert fact.steps == tuple(range(8))
    assert fact.counts == ((4, 2, 2),) * 8
    assert fact.sampler == "sequential"
