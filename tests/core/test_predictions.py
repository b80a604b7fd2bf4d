"""Confusion matrices and curves equal those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from mothtrap.core.predictions import POINTS, predictions

metrics = pytest.importorskip("sklearn.metrics")


def test_scores_of_two_classes_are_judged_as_scikit_learn_does() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 500)
    scores = np.round(np.clip(labels * 0.3 + draw.random(500) * 0.7, 0, 1), 2)  # with ties
    found = predictions(labels, scores, ["no", "yes"])
    assert found.confusion == metrics.confusion_matrix(labels, scores > 0.5).tolist()
    assert found.accuracy == np.mean(labels == (scores > 0.5))
    [roc], [recall] = found.roc, found.precision_recall
    assert roc.label == "yes"
    assert roc.area == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert recall.area == pytest.approx(metrics.average_precision_score(labels, scores))
    assert (roc.x[0], roc.y[0], roc.x[-1], roc.y[-1]) == (0, 0, 1, 1)
    assert len(roc.x) <= POINTS


def test_scores_of_many_classes_have_a_curve_each() -> None:
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 4, 300)
    scores = draw.standard_normal((300, 4)) + 2 * np.eye(4)[labels]
    found = predictions(labels.astype(np.float32), scores)
    assert found.confusion == metrics.confusion_matrix(labels, scores.argmax(1)).tolist()
    for curve in found.roc:
        number = int(curve.label)
        expected = metrics.roc_auc_score(labels == number, scores[:, number])
        assert curve.area == pytest.approx(expected)


def test_logits_are_cut_at_zero_and_classes_have_no_curves() -> None:
    assert predictions(np.array([0, 1]), np.array([-3.0, 2.0])).confusion == [[1, 0], [0, 1]]
    found = predictions(np.array([0, 2, 1]), np.array([0, 2, 2]))
    assert found.confusion == [[1, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert (found.roc, found.left_out) != ([], "")


@pytest.mark.parametrize(
    ("labels", "scores", "why"),
    [
        (np.array([0.5, 1.0]), np.array([0.1, 0.2]), "whole numbers"),
        (np.array([0, 1]), np.array([0.1]), "as many scores as labels"),
        (np.array([], int), np.array([]), "at least one"),
        (np.array([0, 1000]), np.array([0.1, 0.2]), "from 0 to 199"),
        (np.array([-1, 0]), np.array([0.1, 0.2]), "from 0 to 199"),
    ],
)
def test_what_does_not_fit_is_refused(labels: object, scores: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        predictions(labels, scores)  # type: ignore[arg-type]


def test_scores_that_are_not_finite_are_the_least() -> None:
    scores = np.array([[np.nan, 1.0], [0.5, np.nan]])
    assert predictions(np.array([1, 0]), scores).accuracy == 1.0
