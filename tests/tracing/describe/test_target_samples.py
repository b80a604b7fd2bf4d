from __future__ import annotations

import numpy as np
from tests.tracing.describe.loss_calls import BINARY, CLASSES, RNG, called, squared

from mothtrap.tracing.describe import target_samples
from mothtrap.tracing.describe.target_order import TargetsInOrder


def test_confusion_is_labels_against_predictions() -> None:
    assert target_samples.sample(CLASSES, [], columns=False).confusion == (
        1,
        1,
        0,
        0,
        1,
        0,
        0,
        0,
        1,
    )
    assert target_samples.sample(BINARY, [], columns=False).confusion == (1, 0, 1, 1)


def test_targets_outside_of_the_last_operation_are_counted() -> None:
    found = target_samples.sample(squared([0.5, 3.0, -1.0, 1.0], ("sigmoid",)), [], columns=False)
    assert found.outside_share == 0.5
    assert (found.least, found.greatest) == (-1.0, 3.0)
    assert target_samples.sample(squared([5.0]), [], columns=False).outside_share is None


def test_a_column_that_gives_the_target_away_is_found_in_the_rows_that_were_kept_of_both() -> None:
    table = RNG.normal(size=(32, 4))
    for target in (3 * table[:, 2] + 1, 3 * table[:24, 2] + 1):
        found = target_samples.sample(squared(target), [table], columns=True)
        assert (found.telling_columns, found.columns) == ((2,), 4)
    assert target_samples.sample(squared(table[:, 2]), [], columns=True).telling_columns is None
    assert target_samples.sample(squared(table[:, 2]), [table], columns=False).columns is None


def test_the_order_of_targets_is_reported_after_eight_steps() -> None:
    order = TargetsInOrder("train.py:9", "train.py:9")
    for step in range(8):
        assert not order.is_due(step)
        target_samples.add_to_order(order, step, CLASSES)
        target_samples.add_to_order(order, step, CLASSES)  # a step of two micro-batches
    assert order.is_due(8)
    fact = order.fact(8, loader="fit", sampler="sequential")
    assert fact.steps == tuple(range(8))
    assert fact.counts == ((4, 2, 2),) * 8
    assert fact.sampler == "sequential"


def test_contradicted_labels_of_the_surest_quarter() -> None:
    sure, unsure = [0.9, 0.05, 0.05], [0.3, 0.4, 0.3]
    probability_RK = np.array([sure, unsure, sure, unsure, sure, unsure, unsure, unsure])
    assert target_samples.surest(probability_RK, np.array([0, 2, 1, 2, 0, 2, 2, 2])) == (2, 1)
    assert target_samples.surest(probability_RK[:3], np.array([1, 1, 1])) is None
    ignored = np.array([-100, 1, 1, 1, 0, 1, 1, 1])
    assert target_samples.surest(probability_RK, ignored) == (1, 1)
    column_R1 = np.array([[0.9], [0.1], [0.05], [0.6]])
    assert target_samples.surest(column_R1, np.array([1, 0, 1, 1])) == (1, 1)
    assert target_samples.sample(CLASSES, [], columns=False).surest == (1, 0)
    by_label = called(np.zeros((4, 2)), np.full((4, 2), 0.2), "binary_cross_entropy", classes=2)
    assert target_samples.sample(by_label, [], columns=False).surest is None
