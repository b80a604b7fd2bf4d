"""Rows of evaluation that are rows of training."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checks.given import Given, finding, passes, result, table

CODE = "PRE301"


def test_parts_that_share_samples_are_named_by_index() -> None:
    x, y = table()
    train = Given(x, y, places=range(300))
    found = finding(CODE, train, Given(x, y, "evaluation", places=range(290, 400)))
    assert found.severity == "error"
    assert found.evidence["indices"] == [float(n) for n in range(290, 300)]
    assert "10 of 110 evaluation samples" in found.message


def test_copied_rows_are_named_in_both_sets() -> None:
    x, y = table()
    other, labels = table(rows=200, seed=1)
    other[50:60] = x[100:110]
    found = finding(CODE, Given(x, y), Given(other, labels, "evaluation"))
    assert found.severity == "error"
    assert sorted(found.evidence["indices"]) == [float(n) for n in range(50, 60)]
    assert sorted(found.evidence["training_indices"]) == [float(n) for n in range(100, 110)]


def test_disjoint_parts_pass() -> None:
    x, y = table()
    parts = Given(x, y, places=range(300)), Given(x, y, "evaluation", places=range(300, 400))
    assert passes(CODE, *parts)


@pytest.mark.parametrize("values", [3, 4, 6])
def test_rows_that_repeat_by_chance_are_no_leak(values: int) -> None:
    rng = np.random.default_rng(values)
    x = rng.integers(0, values, (1500, 4)).astype(np.float32)
    y = rng.integers(0, 2, 1500)
    parts = Given(x, y, places=range(1000)), Given(x, y, "evaluation", places=range(1000, 1500))
    assert passes(CODE, *parts)


def test_rows_repeated_in_training_alone_are_no_leak_and_hide_none() -> None:
    x, y = table()
    train = Given(np.repeat(x, 3, axis=0), np.repeat(y, 3))
    other, labels = table(rows=200, seed=1)
    assert passes(CODE, train, Given(other, labels, "evaluation"))
    other[:20] = x[:20]
    assert finding(CODE, train, Given(other, labels, "evaluation")).severity == "error"


def test_blank_pictures_are_no_leak() -> None:
    rng = np.random.default_rng(0)
    pictures = rng.random((300, 8, 8))
    pictures[::10] = 0
    y = rng.integers(0, 2, 300)
    parts = (
        Given(pictures, y, places=range(200)),
        Given(pictures, y, "evaluation", places=range(200, 300)),
    )
    assert passes(CODE, *parts)


def test_training_data_that_are_evaluated_as_a_whole_are_a_warning() -> None:
    x, y = table()
    found = finding(CODE, Given(x, y), Given(x, y, "evaluation", places=range(100)))
    assert found.severity == "warning"


def test_the_training_score_may_be_measured_beside_the_evaluation() -> None:
    x, y = table()
    train = Given(x, y, places=range(300))
    part = Given(x, y, "evaluation", places=range(100))
    found = finding(CODE, train, part, Given(x, y, "evaluation", places=range(300, 400)))
    assert found.severity == "info"


def test_a_shuffled_loader_that_was_not_used_may_be_for_training() -> None:
    x, y = table()
    other = Given(x, y, "evaluation", places=range(200, 400), shuffled=True)
    assert finding(CODE, Given(x, y, places=range(300)), other).severity == "warning"


def test_augmented_samples_of_different_data_sets_cannot_be_compared() -> None:
    x, y = table()
    other = Given(x.copy(), y, "evaluation")
    assert result(CODE, Given(x, y, random=True), other).state == "not_enough_data"


def augmented(x: np.ndarray, y: np.ndarray, role: str = "train") -> Given:
    """Return a data set whose samples change when they are read."""
    noisy = x + np.random.default_rng(len(x)).normal(size=x.shape)
    return Given(noisy, y, role, random=True, stored=Given(x, None, role))  # type: ignore[arg-type]


def test_augmented_copies_are_named_by_the_rows_that_are_stored() -> None:
    x, y = table()
    other, labels = table(rows=200, seed=1)
    assert passes(CODE, augmented(x, y), augmented(other, labels, "evaluation"))
    other[50:60] = x[100:110]
    found = finding(CODE, augmented(x, y), augmented(other, labels, "evaluation"))
    assert found.severity == "error"
    assert sorted(found.evidence["indices"]) == [float(n) for n in range(50, 60)]


def test_rows_that_are_stored_in_another_way_decide_nothing() -> None:
    x, y = table()
    other = Given(x, y, "evaluation", stored=Given(x[:, :2], None, "evaluation"))
    assert result(CODE, augmented(x, y), other).state == "not_enough_data"


def test_an_empty_data_set_decides_nothing() -> None:
    x, y = table()
    assert result(CODE, Given(x[:0], y[:0]), Given(x, y, "evaluation")).state == "not_enough_data"


def test_without_an_evaluation_nothing_is_decided() -> None:
    assert result(CODE, Given(*table())).state == "not_enough_data"


def test_rows_repeated_before_the_split_are_copies() -> None:
    x, y = table(400)
    rng = np.random.default_rng(1)
    rows = rng.permutation(np.concatenate([np.arange(400), rng.integers(0, 60, 300)]))
    train, other = (
        Given(x[rows[:500]], y[rows[:500]]),
        Given(x[rows[500:]], y[rows[500:]], "evaluation"),
    )
    found = finding(CODE, train, other)
    assert found.severity == "warning"
    assert "equal training rows" in found.message
