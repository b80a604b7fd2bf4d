"""Labels that are wrong."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.checks.given import Given, finding, passes, result

from mothtrap.checks.data.label_noise import label_issues
from mothtrap.checks.subject import Array

CODE = "PRE306"


def noisy(labels: Array, share: float, seed: int = 0) -> tuple[Array, Array]:
    """Give a share of the rows another class; return the labels and the positions."""
    rng = np.random.default_rng(seed)
    classes = int(labels.max()) + 1
    wrong = rng.random(len(labels)) < share
    found = labels.copy()
    found[wrong] = (labels[wrong] + rng.integers(1, classes, int(wrong.sum()))) % classes
    return found, np.flatnonzero(wrong)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_wine])
def test_wrong_labels_are_named(load: object) -> None:
    x, y = load(return_X_y=True)
    labels, wrong = noisy(y, 0.15)
    found = finding(CODE, Given(x, labels))
    assert found.severity == "warning"
    named = set(found.evidence["indices"])
    assert len(named & set(wrong)) > 0.8 * len(named)
    assert found.evidence["indices"][0] in wrong


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_wine])
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_clean_labels_and_a_few_wrong_ones_pass(load: object, share: float) -> None:
    x, y = load(return_X_y=True)
    assert passes(CODE, Given(x, noisy(y, share)[0]))


def test_classes_that_overlap_are_no_noise() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 8))
    chance = 1 / (1 + np.exp(-2 * x[:, 0] - x[:, 1]))
    assert passes(CODE, Given(x, (rng.random(3000) < chance).astype(int)))


def test_data_that_no_simple_model_learns_decide_nothing() -> None:
    rng = np.random.default_rng(0)
    made = result(CODE, Given(rng.normal(size=(300, 4)), rng.integers(0, 2, 300)))
    assert made.state == "not_enough_data"


def probabilities(seed: int) -> tuple[Array, Array]:
    x, y = make_classification(300, 10, n_informative=5, n_classes=3, random_state=seed)
    labels, _ = noisy(y, 0.2)
    model = LogisticRegression(max_iter=500)
    return labels, cross_val_predict(model, x, labels, cv=5, method="predict_proba")


def by_definition(labels: Array, share: Array) -> list[int]:
    """Return likely wrong labels, row by row."""
    means = [np.mean([share[n, k] for n in np.flatnonzero(labels == k)]) for k in range(3)]
    found = []
    for n, row in enumerate(share):
        sure = [k for k in range(3) if row[k] >= means[k] - 1e-6]
        guess = max(sure, key=lambda k: row[k]) if sure else labels[n]
        if guess != labels[n] and np.argmax(row) != labels[n]:
            found.append(n)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_rule_is_that_of_confident_learning(seed: int) -> None:
    labels, share = probabilities(seed)
    assert label_issues(labels, share).tolist() == by_definition(labels, share)


@pytest.mark.parametrize("seed", range(3))
def test_the_indices_equal_those_of_cleanlab(seed: int) -> None:
    filters = pytest.importorskip("cleanlab.filter")
    labels, share = probabilities(seed)
    bad = filters.find_label_issues(labels, share, filter_by="confident_learning", n_jobs=1)
    assert label_issues(labels, share).tolist() == np.flatnonzero(bad).tolist()


@pytest.mark.parametrize(
    "load", [load_breast_cancer, pytest.param(load_digits, marks=pytest.mark.full), load_wine]
)
def test_the_indices_in_real_data_equal_those_of_cleanlab(load: object) -> None:
    filters = pytest.importorskip("cleanlab.filter")
    x, y = load(return_X_y=True)
    labels, _ = noisy(y, 0.15)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    share = cross_val_predict(model, x, labels, cv=5, method="predict_proba")
    bad = filters.find_label_issues(labels, share, filter_by="confident_learning", n_jobs=1)
    assert label_issues(labels, share).tolist() == np.flatnonzero(bad).tolist()


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    made = result(CODE, Given(np.zeros((4, 3)), np.zeros(4, int)))
    assert made.state == "not_applicable"
    assert "pip install 'scikit-learn" in made.reason
