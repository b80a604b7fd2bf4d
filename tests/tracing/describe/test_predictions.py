from __future__ import annotations

import numpy as np
import pytest

from mothtrap.tracing.describe.predictions import compared

RNG = np.random.default_rng(0)
ABOUT = {"step": 0, "fit": "a", "estimator": "SVC", "site": "predict"}


def found(label_R, predicted_R, classes=None):
    return compared(np.asarray(label_R), np.asarray(predicted_R), classes, **ABOUT)


def test_classes_are_counted() -> None:
    one = found(["a"] * 6 + ["b"] * 4, ["a"] * 8 + ["b"] * 2, ["a", "b"])
    assert one.label_counts == (6, 4)
    assert one.predicted_counts == (8, 2)
    assert one.right == (6, 2)
    # by hand: 0.8 of the rows agree, 0.56 would by chance
    assert one.relation == pytest.approx((0.8 - 0.56) / (1 - 0.56))


def test_chance_is_the_spread_of_random_orders() -> None:
    label_R = RNG.choice(3, 500, p=[0.7, 0.2, 0.1])
    predicted_R = RNG.choice(3, 500, p=[0.8, 0.15, 0.05])
    one = found(label_R, predicted_R, [0, 1, 2])
    kappas = [found(RNG.permutation(label_R), predicted_R, [0, 1, 2]).relation for _ in range(400)]
    assert one.chance == pytest.approx(3.1 * np.std(kappas), rel=0.15)
    assert abs(one.relation) < one.chance


def test_numbers_are_correlated() -> None:
    label_R = RNG.normal(size=300)
    one = found(label_R, 2 * label_R + 1)
    assert one.relation == pytest.approx(1.0)
    assert one.predicted_std == pytest.approx(2 * one.label_std)
    assert abs(found(label_R, RNG.normal(size=300)).relation) < one.chance


def test_constant_predictions_have_no_relation() -> None:
    assert found(RNG.normal(size=50), np.zeros(50)).relation is None
    one = found([0, 1] * 20, [0] * 40, [0, 1])
    assert (one.relation, one.predicted_counts) == (None, (40, 0))


@pytest.mark.parametrize(
    ("label_R", "predicted_R", "classes"),
    [
        ([0, 1] * 20, [0, 1], [0, 1]),
        ([0, 1], [0, 1], [0, 1]),
        (np.arange(400), np.arange(400), [0, 1]),
        ([0.5] * 20, [np.nan] * 20, None),
        (["a"] * 20, ["b"] * 20, None),
    ],
)
def test_what_does_not_match_is_not_compared(label_R, predicted_R, classes) -> None:
    assert found(label_R, predicted_R, classes) is None
