"""Answers are recognized by their shape and range, and every loss equals that of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss

from mothtrap.behavior.reading import read
from mothtrap.core.errors import ConfigError

RNG = np.random.default_rng(0)
TWO = RNG.integers(0, 2, 50)
THREE = RNG.integers(0, 3, 50)
SOFT = RNG.dirichlet(np.ones(3), 50)


@pytest.mark.parametrize(
    ("answer", "y", "form"),
    [
        (RNG.random(50), TWO, "probabilities"),
        (RNG.random((50, 1)), TWO, "probabilities"),
        (RNG.normal(0, 4, 50), TWO, "logits"),
        (SOFT, THREE, "probabilities"),
        (RNG.normal(0, 4, (50, 3)), THREE, "logits"),
        (THREE, THREE, "labels"),
        (np.array(list("ab"))[TWO], np.array(list("ab"))[TWO], "labels"),
        (RNG.normal(size=50), RNG.normal(size=50), "numbers"),
        (RNG.normal(size=50) + 5, RNG.integers(0, 10, 50), "numbers"),
    ],
)
def test_answers_are_recognized(answer: Any, y: Any, form: str) -> None:
    assert read(answer, y).form == form


def test_the_task_decides_where_the_answers_do_not() -> None:
    counts = RNG.integers(0, 5, 50)
    assert read(counts, counts, "regression").form == "numbers"
    assert read(counts, counts).form == "labels"


def test_losses_are_those_of_scikit_learn() -> None:
    reading = read(SOFT, THREE)
    losses = reading.losses(np.clip(SOFT, 1e-3, 1), reading.targets(THREE))
    assert losses.mean() == pytest.approx(
        -np.log(np.clip(SOFT[np.arange(50), THREE], 1e-3, 1)).mean()
    )
    wide = np.clip(SOFT, 0.01, 1)
    wide /= wide.sum(axis=1, keepdims=True)
    assert reading.losses(wide, reading.targets(THREE)).mean() == pytest.approx(
        log_loss(THREE, wide)
    )


def test_a_row_costs_a_bounded_loss() -> None:
    reading = read(np.eye(3)[(THREE + 1) % 3], THREE)
    losses = reading.losses(np.eye(3)[(THREE + 1) % 3], reading.targets(THREE))
    assert losses.max() == pytest.approx(6.9, abs=0.01)


def test_named_classes_give_the_order_of_the_columns() -> None:
    y = np.array(["no", "yes"])[TWO]
    sure = np.stack([TWO, 1 - TWO], axis=1).astype(float)
    reading = read(sure, y, classes=("yes", "no"))
    assert reading.wrong(reading.scores(sure), reading.targets(y)).sum() == 0


@pytest.mark.parametrize(
    ("answer", "y", "words"),
    [
        (RNG.random(40), TWO, "40 predictions"),
        (RNG.random((50, 4)), np.array(list("abc"))[THREE], "classes"),
        (RNG.random((50, 2, 2)), TWO, "shape"),
        (RNG.normal(size=50), np.array(list("abc"))[THREE], "one number per row"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(answer: Any, y: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(answer, y)
