"""Simple models from scikit-learn: their scores, and probabilities of held-out rows.

scikit-learn is imported by the functions, because it is an optional extra.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from mothtrap.checks.subject import Array
from mothtrap.core.errors import NotApplicable
from mothtrap.core.extras import install_command

NAMES = ("dummy", "linear", "gradient boosting")
FOLDS = 5
"""Number of folds for probabilities of held-out rows; the usual number."""
NEIGHBORS = 10
"""Number of nearest neighbors; chosen by hand."""
ITERATIONS = 500
"""Iterations of the solver of the linear classifier; chosen by hand."""
BOOSTING_RATE, BOOSTING_ITERATIONS = 0.2, 50
"""Twice the default rate and half of the iterations, to save time; chosen by hand."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside a block.

    Threads that OpenMP started before a process was copied do not exist in the copy, which
    would wait for them.

    Raises:
        NotApplicable: scikit-learn is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise NotApplicable(f"scikit-learn is not installed: {install_command('check')}")
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that did not converge is a weaker baseline
        yield


def simple_model(name: str, task: Literal["classes", "numbers"]) -> Any:
    """Return an unfitted estimator.

    Args:
        name: Model name, one of `NAMES`.
        task: "classification" or "regression".
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classes = task == "classes"
    if name == "dummy":
        return DummyClassifier() if classes else DummyRegressor()
    if name == "linear":
        last = LogisticRegression(max_iter=ITERATIONS) if classes else Ridge()
        return make_pipeline(SimpleImputer(), StandardScaler(), last)
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return boosting(learning_rate=BOOSTING_RATE, max_iter=BOOSTING_ITERATIONS, random_state=0)


def held_out_probabilities(x: Array, labels: Array) -> tuple[Array, float]:
    """Return class probabilities for each row from a model that did not see the row.

    Logistic regression and nearest neighbors are tried, and the more accurate one is used.

    Args:
        x: float64, shape (rows, features).
        labels: 0 to classes - 1, shape (rows,); each class has at least `FOLDS` rows.

    Returns:
        Probabilities of shape (rows, classes), and the accuracy of the model.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    nearest = make_pipeline(SimpleImputer(), StandardScaler(), KNeighborsClassifier(NEIGHBORS))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    found: list[tuple[float, Array]] = []
    for model in (simple_model("linear", "classes"), nearest):
        share = cross_val_predict(model, x, labels, cv=folds, method="predict_proba")
        found.append((float(np.mean(share.argmax(1) == labels)), share))
    accuracy, best = max(found, key=lambda one: one[0])
    return best, accuracy


def logistic_optimum(x: Array, labels: Array) -> tuple[float, float]:
    """Return the lowest cross-entropy of a linear model without a penalty, and of a constant.

    Args:
        x: float64, shape (rows, features).
        labels: class numbers, shape (rows,).
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.preprocessing import StandardScaler

    classes, counts = np.unique(labels, return_counts=True)
    share = counts / counts.sum()
    constant = float(-(share * np.log(share)).sum())
    if len(classes) < 2:
        return 0.0, constant
    scaled = StandardScaler().fit_transform(x)
    model = LogisticRegression(C=np.inf, max_iter=10 * ITERATIONS).fit(scaled, labels)
    return float(log_loss(labels, model.predict_proba(scaled), labels=classes)), constant
