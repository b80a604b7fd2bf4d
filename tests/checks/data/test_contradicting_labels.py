"""Equal rows with different labels."""

from __future__ import annotations

import math

import numpy as np
from tests.checks.given import Given, finding, passes, result, table

CODE = "PRE302"


def test_equal_rows_with_other_labels_are_named_and_the_floor_of_the_loss_is_told() -> None:
    x, y = table()
    x[:20], y[:20] = x[20:40], (y[20:40] + 1) % 3
    found = finding(CODE, Given(x, y))
    assert found.severity == "warning"
    assert sorted(found.evidence["indices"]) == list(range(40))
    assert found.evidence["floor"] == 40 / 400 * math.log(2)


def test_equal_rows_with_equal_labels_pass() -> None:
    x, y = table()
    assert passes(CODE, Given(np.repeat(x, 2, axis=0), np.repeat(y, 2)))


def test_a_few_discrete_columns_that_do_not_determine_the_label_are_a_note() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, (400, 2)).astype(np.float32), rng.integers(0, 2, 400)
    assert finding(CODE, Given(x, y)).severity == "info"


def test_numbers_as_targets_may_differ() -> None:
    x, _ = table()
    targets = np.random.default_rng(0).normal(size=400)
    assert result(CODE, Given(x, targets), task="numbers").state == "not_applicable"
