"""Simple models fitted to the same task, which a probed model must beat.

Shape suffixes: R = rows, K = classes, F = features.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.sklearn.threads import one_thread
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotEnoughData

FOLDS: Final = 5
FEW_FOLDS: Final = 3
MANY_ROWS: Final = 2_000
"""Rows from which three folds do: two thirds of them are enough for a simple model. Chosen by hand:
it takes half of the time of five folds."""
MAX_TREES: Final = 100
NAMES: Final = {
    "constant": "a constant prediction",
    "linear": "a linear model",
    "tree": "a decision tree of depth 5",
    "boosting": "gradient boosting with default settings",
}
SIMPLE: Final = ("constant", "linear", "tree")
"""Models that are preferable if they are as good, because people can read or compute them."""


class SimpleModel:
    """A simple model and its encoding of the rows.

    Args:
        kind: A name in `NAMES`.
        classes: number of classes; 0 for regression.
        table: defines columns and levels.
    """

    def __init__(self, kind: str, classes: int, table: Table) -> None:
        self._kind, self._classes = kind, classes
        self._encoder = Encoder(table)
        self._model: Any = None

    def fit(self, input_RF: npt.NDArray[np.float64], target_R: npt.NDArray[Any]) -> SimpleModel:
        """Fit the model to encoded rows, skipping rows of an unknown class."""
        known_R = target_R >= 0 if self._classes else np.isfinite(target_R)
        kind = self._kind
        if self._classes and len(np.unique(target_R[known_R])) < 2:
            kind = "constant"
        self._model = _make(kind, self._classes, self._encoder.categories_F)
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")
            self._model.fit(input_RF[known_R], target_R[known_R])
        return self

    def scores(self, input_RF: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return probabilities (R, K) or numbers (R, 1) for encoded rows."""
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")
            if not self._classes:
                return np.asarray(self._model.predict(input_RF), float)[:, None]
            found = np.zeros((len(input_RF), self._classes))
            found[:, self._model.classes_] = self._model.predict_proba(input_RF)
        return found

    def encoded(self, table: Table) -> npt.NDArray[np.float64]:
        """Return rows encoded for the model, (R, F)."""
        linear = self._kind in ("linear", "tree")
        return self._encoder.one_hot(table) if linear else self._encoder.ordinal(table)


def simple_answers(subject: Subject, kind: str) -> npt.NDArray[np.float64]:
    """Return a simple model's predictions for the held-out rows, (R, K) or (R, 1).

    The model is fitted on the training rows, or without training rows in folds on the held-out
    rows. The result is cached for further probes.

    Raises:
        NotEnoughData: There are too few rows to fit.
    """
    key = f"simple {kind}"
    if key not in subject.shared:
        subject.budget.spend()
        subject.shared[key] = _answers(subject, kind)
    found: npt.NDArray[np.float64] = subject.shared[key]
    return found


def simple_judged(subject: Subject, kind: str) -> Judged:
    """Return the held-out rows with a simple model's predictions."""
    judged = subject.judged
    scores = simple_answers(subject, kind)
    loss = subject.options.loss
    return Judged(judged.table, judged.target_R, scores, subject.reading, judged.rows_R, loss)


def _answers(subject: Subject, kind: str) -> npt.NDArray[np.float64]:
    judged, classes = subject.judged, len(subject.reading.classes)
    if len(judged) < 2 * FOLDS:
        raise NotEnoughData(f"needs {2 * FOLDS} rows, has {len(judged)}")
    if subject.train is not None:
        model = SimpleModel(kind, classes, subject.train.table)
        model.fit(model.encoded(subject.train.table), subject.train.target_R)
        found = model.scores(model.encoded(judged.table))
    else:
        found = np.zeros((len(judged), max(classes, 1)))
        folds = FOLDS if len(judged) < MANY_ROWS else FEW_FOLDS
        fold_R = subject.rng("folds").permutation(len(judged)) % folds
        model = SimpleModel(kind, classes, judged.table)
        input_RF = model.encoded(judged.table)
        for fold in range(folds):
            subject.budget.spend()
            model.fit(input_RF[fold_R != fold], judged.target_R[fold_R != fold])
            found[fold_R == fold] = model.scores(input_RF[fold_R == fold])
    if subject.reading.form == "labels":
        found = (found == found.max(axis=1, keepdims=True)).astype(float)
    return found


def _make(kind: str, classes: int, categories_F: npt.NDArray[np.bool_]) -> Any:
    """Return an unfitted model of scikit-learn."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if kind == "boosting":
        shared = {
            "categorical_features": categories_F if categories_F.any() else None,
            "early_stopping": False,
            "max_iter": MAX_TREES if classes <= 3 else MAX_TREES // 4,
            "random_state": 0,
        }
        if classes:
            return HistGradientBoostingClassifier(**shared)
        return HistGradientBoostingRegressor(**shared)
    makers: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "constant": (lambda: DummyClassifier(strategy="prior"), DummyRegressor),
        "linear": (
            lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)),
            lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 7))),
        ),
        "tree": (
            lambda: DecisionTreeClassifier(max_depth=5, min_samples_leaf=5, random_state=0),
            lambda: DecisionTreeRegressor(max_depth=5, min_samples_leaf=5, random_state=0),
        ),
    }
    return makers[kind][0 if classes else 1]()
