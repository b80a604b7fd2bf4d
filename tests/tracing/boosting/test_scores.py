from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from mothtrap.core.facts.trees import ScoresSeen
from mothtrap.tracing.boosting.guesses import guess
from mothtrap.tracing.boosting.scores import scores

RNG = np.random.default_rng(0)


def seen(predicted: np.ndarray, label: np.ndarray, task: str) -> ScoresSeen:
    found = scores(
        predicted, label.astype(float), task=task, step=0, fit="", site="valid", rounds=5
    )
    assert found is not None
    return found


def test_scores_of_two_classes_are_those_of_scikit_learn() -> None:
    label = RNG.integers(0, 2, 500)
    predicted = np.clip(np.round(0.3 * label + RNG.random(500) * 0.7, 2), 0, 1)
    found, chosen = seen(predicted, label, "two_classes"), (predicted > 0.5).astype(int)
    assert found.auc == pytest.approx(metrics.roc_auc_score(label, predicted))
    assert np.array_equal(found.confusion, metrics.confusion_matrix(label, chosen))
    expected = metrics.precision_recall_fscore_support(label, chosen)
    assert found.precision == pytest.approx(expected[0])
    assert found.recall == pytest.approx(expected[1])
    assert found.f1 == pytest.approx(expected[2])
    assert (found.roc[0], found.roc[-1]) == ((0.0, 0.0), (1.0, 1.0))


def test_several_classes_are_named_by_probability_or_by_number() -> None:
    label = RNG.integers(0, 3, 300)
    share = RNG.dirichlet([1, 1, 1], 300)
    found = seen(share, label, "classes")
    assert found.accuracy == pytest.approx(float((share.argmax(axis=1) == label).mean()))
    assert seen(share.argmax(axis=1).astype(float), label, "classes") == found
    assert found.auc is None


def test_errors_of_numbers_are_told_by_label_and_by_sign() -> None:
    label = np.linspace(0, 10, 101)
    found = seen(label - np.where(label > 9, 4.0, 0.5), label, "regression")
    assert found.error_per_bin[-1] == pytest.approx(4.0, abs=0.4)
    assert found.error_per_bin[0] == pytest.approx(0.5)
    assert sum(found.residuals) == 101
    assert found.confusion == ()


@pytest.mark.parametrize(
    ("predicted", "label", "task"),
    [
        (np.zeros(3), np.zeros(4), "regression"),
        (np.zeros(3), np.zeros(3), "ranking"),
        (np.zeros(3), np.array([0.0, 0.5, 1.0]), "two_classes"),
        (np.full(3, np.nan), np.zeros(3), "regression"),
    ],
)
def test_nothing_is_said_of_what_does_not_fit(predicted, label, task: str) -> None:
    assert scores(predicted, label, task=task, step=0, fit="", site="", rounds=1) is None


def test_the_loss_of_guessing_is_that_of_the_best_constant() -> None:
    label = np.array([0.0, 0.0, 0.0, 1.0])
    assert guess("binary_logloss", label) == pytest.approx(metrics.log_loss(label, [0.25] * 4))
    assert guess("error", label) == pytest.approx(0.25)
    numbers = np.array([1.0, 2.0, 9.0])
    assert guess("RMSE", numbers) == pytest.approx(numbers.std())
    assert guess("mae", numbers) == pytest.approx(np.abs(numbers - 2.0).mean())
    assert guess("ndcg", label) is None
    assert guess("rmse", np.ones(4)) is None
    assert guess("logloss", label + 0.5) is None
