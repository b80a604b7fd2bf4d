"""Small models that predict the residuals of the probed model.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Final

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
"""A feature is named if permuting it costs this share of the R2 of all features; chosen by hand."""
MAX_PRODUCTS: Final = 3
CHANCE: Final = 0.01
"""Chance that a product of two features is used although the target does not depend on any."""
LEAST_GAIN: Final = 0.1
"""Gain in R2 that products must add to trees alone. Measured: 0.06 for the rest of an interaction
that boosted deep trees leave, 0.4 for an interaction that a linear model misses."""
FAR: Final = 3.0
"""Standard deviations to which values are clipped before they are multiplied; chosen by hand."""


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

    def fit(rows_R: npt.NDArray[np.bool_], depth: int, products: bool = False) -> _Boosted:
        return _Boosted(input_RF[rows_R], target_R[rows_R], depth, categories_F, products)

    with one_thread():
        model, other = fit(propose_R, 2), fit(confirm_R, 2)
        richer = fit(propose_R, 2, products=True)
        if richer.pairs and _gains(richer, model, input_RF[confirm_R], target_R[confirm_R]):
            model, other = richer, fit(confirm_R, 2, products=True)
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


def _gains(new: _Boosted, old: _Boosted, input_RF: Floats, truth_R: Floats) -> bool:
    before, after = (_explained(each.predict(input_RF), truth_R) for each in (old, new))
    return after > before + LEAST_GAIN


class _Boosted:
    """Boosted trees that may also get the products of pairs of features that the target follows.

    Trees choose one feature at a time. They miss a product of two features, neither of which has
    an effect alone.
    """

    def __init__(
        self,
        input_RF: Floats,
        target_R: Floats,
        depth: int,
        categories_F: npt.NDArray[np.bool_],
        products: bool,
    ) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        self._center_F, self._spread_F = _scale(input_RF)
        is_number_F = ~categories_F if len(categories_F) else np.ones(input_RF.shape[1], bool)
        number_RF = np.where(is_number_F, self._scaled(input_RF), 0.0)
        self.pairs = products_of(number_RF, target_R) if products else ()
        known_F = np.append(~is_number_F, np.zeros(len(self.pairs), bool))
        self._model = HistGradientBoostingRegressor(
            max_depth=depth,
            max_iter=TREES,
            learning_rate=RATE,
            early_stopping=False,
            min_samples_leaf=30,
            categorical_features=known_F if known_F.any() else None,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._model.fit(self._with_products(input_RF), target_R)

    def predict(self, input_RF: Floats) -> Floats:
        """Return the predicted target (R,)."""
        return np.asarray(self._model.predict(self._with_products(input_RF)))

    def _scaled(self, input_RF: Floats) -> Floats:
        scaled_RF = (input_RF - self._center_F) / self._spread_F
        return np.clip(np.nan_to_num(scaled_RF), -FAR, FAR)

    def _with_products(self, input_RF: Floats) -> Floats:
        if not self.pairs:
            return input_RF
        scaled_RF = self._scaled(input_RF)
        return np.column_stack(
            [input_RF, *(scaled_RF[:, i] * scaled_RF[:, j] for i, j in self.pairs)]
        )


def _scale(input_RF: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each feature, 0 and 1 if it is constant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a feature without any value
        center_F, spread_F = np.nanmean(input_RF, axis=0), np.nanstd(input_RF, axis=0)
    return np.nan_to_num(center_F), np.where(spread_F > 0, spread_F, 1.0)


def products_of(scaled_RF: Floats, target_R: Floats) -> tuple[tuple[int, int], ...]:
    """Return the pairs of features whose product has a significant correlation with a target.

    Args:
        scaled_RF: Features with mean 0; features that are 0 everywhere have no products.
        target_R: The target.

    Returns:
        At most `MAX_PRODUCTS` pairs, the clearest first.
    """
    rows, spread = len(target_R), float(target_R.std())
    pairs = scaled_RF.shape[1] * (scaled_RF.shape[1] - 1) // 2
    if not pairs or not spread:
        return ()
    goal_R = np.clip((target_R - target_R.mean()) / spread, -FAR, FAR)
    goal_R -= goal_R.mean()
    mean_FF = scaled_RF.T @ scaled_RF / rows
    square_RF = scaled_RF**2
    spread_FF = np.sqrt(np.maximum(square_RF.T @ square_RF / rows - mean_FF**2, 1e-12))
    score_FF = np.abs((scaled_RF * goal_R[:, None]).T @ scaled_RF) / spread_FF / math.sqrt(rows)
    score_FF = np.triu(np.where(spread_FF > 1e-3, score_FF, 0.0), 1)
    # The tail of a normal distribution: each of the pairs exceeds this with CHANCE / pairs at most.
    limit = math.sqrt(2 * math.log(pairs / CHANCE))
    order = np.argsort(score_FF, axis=None)[::-1][:MAX_PRODUCTS]
    places = zip(*np.unravel_index(order, score_FF.shape), strict=True)
    return tuple((int(i), int(j)) for i, j in places if score_FF[i, j] > limit)


def _explained(fitted_R: Floats, truth_R: Floats) -> float:
    spread = float(((truth_R - truth_R.mean()) ** 2).sum())
    return 1 - float(((truth_R - fitted_R) ** 2).sum()) / spread if spread else 0.0


def _top(
    subject: Subject,
    model: _Boosted,
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
