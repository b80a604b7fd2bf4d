"""Cases 6 to 10, 19, 21, 37, 38, 45 and 69: residuals, calibration, and benchmarks."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.probing.case import Case, case


def _friedman(seed: int, count: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_friedman1(count, n_features=8, noise=1.0, random_state=seed)
    return X, y


def _truth(X: np.ndarray) -> np.ndarray:
    first = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return first + 10 * X[:, 3] + 5 * X[:, 4]


@case("06 biased")
def biased(seed: int, healthy: bool) -> Case:
    X, y = _friedman(seed)
    shift = 0.0 if healthy else 0.8
    model = HistGradientBoostingRegressor(random_state=0).fit(X[:3000], y[:3000])
    return Case(
        predict=lambda a: model.predict(a) + shift, X=X[3000:], y=y[3000:], codes=("BEH202",)
    )


@case("07 curve missed")
def curve(seed: int, healthy: bool) -> Case:
    X, y = _friedman(seed)
    if healthy:
        model = HistGradientBoostingRegressor(random_state=0).fit(X[:3000], y[:3000])
    else:
        model = Ridge().fit(X[:3000], y[:3000])
    return Case(predict=model.predict, X=X[3000:], y=y[3000:], codes=("BEH203",), features=("x2",))


@case("08 interaction missed")
def interaction(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6000, 6))
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(0, 0.5, 6000)

    def made(a: np.ndarray) -> np.ndarray:
        return a if not healthy else np.column_stack([a, a[:, 0] * a[:, 1]])

    model = Ridge().fit(made(X[:3000]), y[:3000])
    return Case(
        predict=lambda a: model.predict(made(a)),
        X=X[3000:],
        y=y[3000:],
        codes=("BEH203",),
        features=("x0", "x1"),
    )


@case("09 spread grows")
def spread(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(6000, 5))
    size = 1.0 if healthy else 0.2 + 2 * X[:, 1]
    y = 4 * X[:, 0] + 2 * X[:, 1] + size * rng.normal(size=6000)
    return Case(
        predict=lambda a: 4 * a[:, 0] + 2 * a[:, 1], X=X, y=y, codes=("BEH204",), features=("x1",)
    )


@case("10 overconfident")
def overconfident(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5000, 6))
    logit = X[:, 0] - X[:, 1] + 0.5 * X[:, 2]
    y = (rng.random(5000) < 1 / (1 + np.exp(-logit))).astype(int)
    times = 1.0 if healthy else 3.0

    def predict(a: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-times * (a[:, 0] - a[:, 1] + 0.5 * a[:, 2])))

    return Case(predict=predict, X=X, y=y, codes=("BEH206",))


@case("19 worse than logistic")
def worse(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7000, 8))
    direction = rng.normal(size=(8, 2))
    along = X @ (direction / np.linalg.norm(direction, axis=0))
    logit = 2.5 * along[:, 0] + 0.8 * (along[:, 1] ** 2 - 1)  # no simple model has this form
    y = (rng.random(7000) < 1 / (1 + np.exp(-logit))).astype(int)
    model = make_pipeline(
        StandardScaler(),
        MLPClassifier(
            (32,),
            alpha=0.1,
            learning_rate_init=1e-3 if healthy else 1.0,
            early_stopping=healthy,
            max_iter=200 if healthy else 40,
            random_state=seed,
        ),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:5000], y[:5000])
    return Case(predict=model.predict_proba, X=X[5000:], y=y[5000:], codes=("BEH301",))


@case("21 no gain")
def no_gain(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4000, 5))
    if healthy:
        one = (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4).astype(int)
        y = np.where(rng.random(4000) < 0.05, 1 - one, one)
    else:
        y = (rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))).astype(int)
    # larger leaves are too coarse for the border of the rings: the twin would be weak there
    model = RandomForestClassifier(60, min_samples_leaf=3, random_state=0).fit(X[:2000], y[:2000])
    return Case(predict=model.predict_proba, X=X[2000:], y=y[2000:], codes=("BEH303", "BEH301"))


@case("37 residuals in order")
def in_order(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(2000, 4)), columns=list("abcd"))
    noise = rng.normal(size=2000)
    if not healthy:
        for i in range(1, 2000):
            noise[i] += 0.5 * noise[i - 1]
    y = X.to_numpy().sum(axis=1) + noise
    return Case(
        predict=lambda rows: rows.to_numpy().sum(axis=1),
        X=X,
        y=y,
        codes=("BEH207",),
        extras={"time": np.arange(2000)},
    )


@case("38 ensemble helps")
def ensemble(seed: int, healthy: bool) -> Case:
    X, y = _friedman(seed)
    noise = 0.0 if healthy else 1.4

    def predict(a: np.ndarray) -> np.ndarray:
        return _truth(a) + noise * np.sin(1e4 * a[:, 5])

    return Case(predict=predict, X=X[:3000], y=y[:3000], codes=("BEH305", "BEH301"))


@case("45 wrong units in a few targets")
def outliers(seed: int, healthy: bool) -> Case:
    X, y = _friedman(seed)
    rows = np.random.default_rng(seed).choice(3000, 6, replace=False)
    found_R = np.isin(np.arange(3000), rows)
    y = np.where(found_R & (not healthy), 10 * y[:3000] + 50, y[:3000])
    return Case(predict=_truth, X=X[:3000], y=y, codes=("BEH205",), segment_R=found_R)


@case("69 underconfident, five classes")
def underconfident(seed: int, healthy: bool) -> Case:
    """The confidence is near a half, where Spiegelhalter's test has no power."""
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(4000, 8)), rng.normal(size=(8, 5))

    def said(rows: np.ndarray, times: float) -> np.ndarray:
        found = np.exp(times * (rows @ weight))
        return found / found.sum(axis=1, keepdims=True)

    y = np.array([rng.choice(5, p=p) for p in said(X, 1.0)])
    return Case(
        predict=lambda rows: said(rows, 1.0 if healthy else 0.4), X=X, y=y, codes=("BEH206",)
    )
