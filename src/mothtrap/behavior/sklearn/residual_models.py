"""Small models that predict the residuals of the probed model.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.confirm import correlation
from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.sklearn.threads import one_thread
from mothtrap.behavior.subject import Subject

Floats = npt.NDArray[np.float64]

TREES: Final = 100
RATE: Final = 0.1
TOP_SHARE: Final = 0.2
"""A feature is named if permuting it costs this share of what all features together explain;
chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Quality of predicting a target from the inputs, on rows that were not used for fitting.

    `explained` is R2, `p` the p-value of the correlation, `additive` the R2 of a model
    without interactions, `names` the features that matter, most important first, and `fitted_R`
    the predictions for all rows, each from a model that did not see the row.
    """

    explained: float
    p: float
    additive: float
    names: tuple[str, ...]
    fitted_R: Floats


def pattern_in(
    subject: Subject, target_R: Floats, name: str, further_R: Floats | None = None
) -> Pattern:
    """Fit a small model on one half of the rows, and score it on the other.

    Args:
        subject: The probed model and its rows.
        target_R: Values to predict, such as residuals.
        name: Name of the target, under which the result is cached.
        further_R: An additional feature, named `the prediction`.
    """
    key = f"pattern {name}"
    if key not in subject.shared:
        subject.budget.spend()
        subject.shared[key] = _pattern(subject, target_R, further_R)
    found: Pattern = subject.shared[key]
    return found


def _pattern(subject: Subject, target_R: Floats, further_R: Floats | None) -> Pattern:
    encoder = Encoder(subject.table)
    input_RF = encoder.ordinal(subject.table)
    names = encoder.names or tuple(f"value {i}" for i in range(input_RF.shape[1]))
    categories_F = encoder.categories_F
    if further_R is not None:
        input_RF = np.column_stack([input_RF, further_R])
        names, categories_F = (*names, "the prediction"), np.append(categories_F, False)
    propose_R, confirm_R = subject.propose_R, subject.confirm_R

    def fit(rows_R: npt.NDArray[np.bool_], depth: int) -> Any:
        return _fitted(input_RF[rows_R], target_R[rows_R], depth, categories_F)

    with one_thread():
        model, other = fit(propose_R, 2), fit(confirm_R, 2)
        fitted_R = np.empty(len(target_R))
        fitted_R[confirm_R] = model.predict(input_RF[confirm_R])
        fitted_R[propose_R] = other.predict(input_RF[propose_R])
        judged_R, truth_R = fitted_R[confirm_R], target_R[confirm_R]
        explained = _explained(judged_R, truth_R)
        additive = _explained(fit(propose_R, 1).predict(input_RF[confirm_R]), truth_R)
        top = _top(subject, model, input_RF[confirm_R], truth_R, names, explained)
    return Pattern(
        explained=explained,
        p=correlation(judged_R, truth_R)[1],
        additive=additive,
        names=top,
        fitted_R=fitted_R,
    )


def _fitted(input_RF: Floats, target_R: Floats, depth: int, categories_F: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_depth=depth,
        max_iter=TREES,
        learning_rate=RATE,
        early_stopping=False,
        min_samples_leaf=30,
        categorical_features=categories_F if categories_F.any() else None,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(input_RF, target_R)


def _explained(fitted_R: Floats, truth_R: Floats) -> float:
    spread = float(((truth_R - truth_R.mean()) ** 2).sum())
    return 1 - float(((truth_R - fitted_R) ** 2).sum()) / spread if spread else 0.0


def _top(
    subject: Subject,
    model: Any,
    input_RF: Floats,
    truth_R: Floats,
    names: tuple[str, ...],
    explained: float,
) -> tuple[str, ...]:
    """Return the features that carry the pattern, most important first."""
    if explained <= 0:
        return ()
    rng, losses = subject.rng("pattern"), []
    for place in range(input_RF.shape[1]):
        shuffled_RF = input_RF.copy()
        shuffled_RF[:, place] = rng.permutation(shuffled_RF[:, place])
        losses.append(explained - _explained(model.predict(shuffled_RF), truth_R))
    order = np.argsort(losses)[::-1]
    return tuple(names[i] for i in order if losses[i] > TOP_SHARE * explained)[:4]
