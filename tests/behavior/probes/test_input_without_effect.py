"""Columns without any effect are named, and only these."""

from __future__ import annotations

import numpy as np
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.input_without_effect import InputWithoutEffect
from mothtrap.core.findings import Severity

X = np.random.default_rng(0).normal(size=(600, 6))
Y = X[:, 0]


def test_unused_columns_are_named() -> None:
    (found,) = suspicions(InputWithoutEffect(), lambda a: a[:, 0] + a[:, 2] * a[:, 3], X, Y)
    assert found.features == ("x1", "x4", "x5")
    assert found.severity is None


def test_a_column_that_is_meant_to_be_used_is_a_warning() -> None:
    first, second = suspicions(
        InputWithoutEffect(), lambda a: a[:, :4].sum(axis=1), X, Y, expect_used=("x4",)
    )
    assert (first.features, first.severity) == (("x4",), Severity.WARNING)
    assert second.features == ("x5",)


def test_a_model_that_uses_all_columns_is_left_alone() -> None:
    assert suspicions(InputWithoutEffect(), lambda a: a.sum(axis=1), X, Y) == []


def test_a_constant_column_says_nothing() -> None:
    fixed = X.copy()
    fixed[:, 5] = 1.0
    assert suspicions(InputWithoutEffect(), lambda a: a[:, :5].sum(axis=1), fixed, Y) == []
