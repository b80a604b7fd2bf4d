"""Targets of a loss call site, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from mothtrap.tracing.describe.target_order import MAX_STEPS, REPORTED_AT, TargetsInOrder


def test_micro_batches_of_a_step_are_one_entry() -> None:
    order = TargetsInOrder("train.py:9", None)
    values = np.array([1.0, 2.0, 6.0, 7.0, 9.0])
    for part in (values[:2], values[2:]):
        assert order.add_values(3, (len(part), part.mean(), part.var()))
    (moments,) = order.fact(4).moments
    assert moments == pytest.approx((5, values.mean(), values.var()))


def test_classes_that_come_later_are_0_before() -> None:
    order = TargetsInOrder("train.py:9", None)
    order.add_counts(0, [2])
    order.add_counts(1, [0, 0, 2])
    assert order.fact(2).counts == ((2, 0, 0), (0, 0, 2))


def test_classes_and_values_of_one_site_do_not_mix() -> None:
    order = TargetsInOrder("train.py:9", None)
    assert order.add_counts(0, [2, 2])
    assert not order.add_values(1, (4.0, 0.0, 1.0))
    assert order.fact(2).steps == (0,)


def test_it_is_due_as_soon_as_the_next_step_begins() -> None:
    order = TargetsInOrder("train.py:9", None)
    due = []
    for step in range(2 * MAX_STEPS):
        if order.is_due(step):
            due.append(step)
        order.add_counts(step, [1])
    assert due[: len(REPORTED_AT)] == list(REPORTED_AT)
    assert len(order.fact(step).steps) == MAX_STEPS
