"""Inputs that have another scale in evaluation."""

from __future__ import annotations

import numpy as np
from tests.checks.given import Given, finding, passes, result, table

CODE = "PRE310"


def test_an_evaluation_that_is_not_normalized_is_an_error() -> None:
    x, y = table()
    found = finding(CODE, Given(x, y), Given(128 + 60 * x, y, "evaluation"))
    assert found.severity == "error"
    assert abs(found.evidence["evaluation_mean"] - 128) < 5
    assert abs(found.evidence["deviation"] - 1) < 0.1


def test_pictures_of_255_beside_pictures_of_1_are_an_error() -> None:
    pictures = np.random.default_rng(0).random((200, 3, 8, 8)).astype(np.float32)
    y = np.arange(200) % 2
    found = finding(CODE, Given(pictures, y), Given(pictures * 255, y, "evaluation"))
    assert found.severity == "error"


def test_columns_that_differ_are_a_warning() -> None:
    x, y = table()
    other = x.copy()
    other[:, :3] += 2
    found = finding(CODE, Given(x, y), Given(other, y, "evaluation"))
    assert found.severity == "warning"
    assert "columns 0, 1, 2" in found.message


def test_a_shuffled_loader_that_was_not_used_may_be_for_training() -> None:
    x, y = table()
    other = Given(128 + 60 * x, y, "evaluation", shuffled=True)
    assert finding(CODE, Given(x, y), other).severity == "warning"


def test_equal_scales_pass_and_are_shown() -> None:
    x, y = table()
    sets = Given(x[:200], y[:200]), Given(x[200:], y[200:], "evaluation")
    assert passes(CODE, *sets)
    figures = result(CODE, *sets).figures
    np.testing.assert_allclose(figures["training mean"], x[:200].mean(dtype=float))


def test_integers_have_no_scale() -> None:
    tokens = np.random.default_rng(0).integers(0, 99, (100, 8))
    made = result(CODE, Given(tokens), Given(tokens, None, "evaluation"))
    assert made.state == "not_applicable"


def test_one_extreme_row_is_no_other_scale() -> None:
    x, y = table(rows=1000, columns=20)
    x[17, :3] *= 10_000
    assert passes(CODE, Given(x[:800], y[:800]), Given(x[800:], y[800:], "evaluation"))
