"""Cases 1 to 5, 20, 67 and 68: segments of the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from bench.probing.case import Case, case


def _people(rng: np.random.Generator, count: int) -> pd.DataFrame:
    found = pd.DataFrame(rng.normal(size=(count, 8)), columns=[f"x{i}" for i in range(8)])
    found["age"], found["kind"] = rng.integers(18, 80, count), rng.choice(list("abcd"), count)
    found["region"] = rng.choice([f"r{i}" for i in range(12)], count)
    return found


def _labels(rng: np.random.Generator, X: pd.DataFrame, rate_R: np.ndarray) -> np.ndarray:
    clean = (X.x0 + X.x1 > 0).to_numpy().astype(int)
    return np.where(rng.random(len(X)) < rate_R, 1 - clean, clean)


def _known(X: pd.DataFrame) -> np.ndarray:
    """A model that knows the border and is 88 % sure."""
    one = np.where(X.x0 + X.x1 > 0, 0.88, 0.12)
    return np.stack([1 - one, one], axis=1)


@case("01 weak conjunction")
def weak_conjunction(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = _people(rng, 6000)
    segment_R = ((X.age >= 60) & (X.kind == "b")).to_numpy()
    rate_R = np.where(segment_R & (not healthy), 0.34, 0.12)
    y = _labels(rng, X, rate_R)
    return Case(predict=_known, X=X, y=y, codes=("BEH201",), segment_R=segment_R)


@case("02 weak category of pictures")
def weak_category(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X[:700], y[:700])
    X, y = X[700:].copy(), y[700:]
    writer = rng.choice(list("abcdef"), len(y))
    segment_R = writer == "c"
    if not healthy:
        images = X[segment_R].reshape(-1, 8, 8)
        blurred = sum(np.roll(images, (i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)) / 9
        X[segment_R] = blurred.reshape(-1, 64)
    return Case(
        predict=lambda pictures: model.predict_proba(pictures.reshape(len(pictures), -1)),
        X=X.reshape(-1, 8, 8),
        y=y,
        codes=("BEH201", "BEH302"),
        segment_R=segment_R,
        extras={"about": {"writer": writer}},
    )


@case("03 weak where missing")
def weak_missing(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    rows = rng.choice(len(y), 3000)  # the table has 442 rows; noise makes copies different
    X = X.iloc[rows].reset_index(drop=True) + rng.normal(0, 0.005, (3000, X.shape[1]))
    y = y.iloc[rows].to_numpy() + rng.normal(0, 20, 3000)
    model = HistGradientBoostingRegressor(random_state=0).fit(X[:1500], y[:1500])
    X, y = X[1500:].reset_index(drop=True), y[1500:]
    gone_R = rng.random(len(y)) < 0.15
    X.loc[gone_R, ["bmi", "s5"]] = np.nan
    fill = {"bmi": 0.25, "s5": 0.2} if not healthy else {"bmi": 0.0, "s5": 0.0}
    if healthy:  # rows without a value are as easy as the others: nothing was lost
        X = X.fillna(X.median())
    return Case(
        predict=lambda rows: model.predict(rows.fillna(fill)),
        X=X,
        y=y if not healthy else model.predict(X) + rng.normal(0, 25, len(y)),
        codes=("BEH201", "BEH302"),
        segment_R=gone_R,
    )


@case("04 three weak segments")
def three_segments(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = _people(rng, 9000)
    segments = [(X.age >= 70), (X.region == "r3"), ((X.kind == "a") & (X.x4 > 1))]
    rate_R = np.full(len(X), 0.12)
    if not healthy:
        for segment in segments:
            rate_R[segment.to_numpy()] = 0.4
    y = _labels(rng, X, rate_R)
    which = segments[seed % 3].to_numpy()
    return Case(predict=_known, X=X, y=y, codes=("BEH201",), segment_R=which)


@case("05 noise in 200 columns")
def noise(seed: int, healthy: bool) -> Case:  # noqa: ARG001  # only a twin: nothing is planted
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(4000, 200)), columns=[f"x{i}" for i in range(200)])
    return Case(predict=_known, X=X, y=_labels(rng, X, np.full(4000, 0.12)), codes=())


@case("20 simple is right on a segment")
def simple_is_right(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = _people(rng, 9000)
    one = np.where(X.kind == "c", X.x0 < 0, X.x0 > 0).astype(int)
    y = np.where(rng.random(len(X)) < 0.05, 1 - one, one)
    numbers = pd.get_dummies(X[["x0", "x1", "x2", "kind"]], dtype=float)
    seen = np.arange(4500) if healthy else np.flatnonzero(X.kind[:4500] != "c")
    model = DecisionTreeClassifier(max_depth=6, min_samples_leaf=20, random_state=0)
    model.fit(numbers.iloc[seen], y[seen])
    return Case(
        predict=lambda rows: model.predict_proba(
            pd.get_dummies(rows[["x0", "x1", "x2", "kind"]], dtype=float).reindex(
                columns=numbers.columns, fill_value=0.0
            )
        ),
        X=X[4500:].reset_index(drop=True),
        y=y[4500:],
        codes=("BEH302",),
        segment_R=(X.kind == "c").to_numpy()[4500:],
    )


@case("36 overfit in a segment")
def overfit_segment(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = _people(rng, 8000)
    segment_R = (X.kind == "d").to_numpy()
    y = _labels(rng, X, np.where(segment_R, 0.3, 0.05) if not healthy else np.full(8000, 0.1))
    memory = {
        tuple(row): label for row, label in zip(X.to_numpy()[:4000, :2], y[:4000], strict=True)
    }

    def predict(rows: pd.DataFrame) -> np.ndarray:
        answer = _known(rows)
        known = [memory.get(tuple(row)) for row in rows.to_numpy()[:, :2]]
        for place, label in enumerate(known):
            if label is not None and rows.kind.iloc[place] == "d" and not healthy:
                answer[place] = (0.88, 0.12) if label == 0 else (0.12, 0.88)
        return answer

    return Case(
        predict=predict,
        X=X[4000:].reset_index(drop=True),
        y=y[4000:],
        codes=("BEH304",),
        segment_R=segment_R[4000:],
        extras={"train": (X[:4000], y[:4000])},
    )


@case("67 range and two categories, numbers")
def ranges(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(16_000, 6)), columns=list("abcdef"))
    X["floor"] = rng.integers(0, 30, len(X))
    X["city"], X["heat"] = rng.choice(list("uvwx"), len(X)), rng.choice(list("gop"), len(X))
    segment_R = ((X.floor >= 8) & (X.floor < 20) & (X.city == "v") & (X.heat == "g")).to_numpy()
    truth = (8 * X.a + 5 * X.b * X.c + 0.4 * X.floor).to_numpy()
    y = truth + rng.normal(0, 3, len(X))
    if not healthy:
        y += segment_R * rng.normal(0, 12, len(X))
    model = HistGradientBoostingRegressor(max_iter=150, min_samples_leaf=40)
    model.fit(X.iloc[:8000, :7], y[:8000])
    return Case(
        predict=lambda rows: model.predict(rows.iloc[:, :7]),
        X=X[8000:].reset_index(drop=True),
        y=y[8000:],
        codes=("BEH201",),
        segment_R=segment_R[8000:],
    )


@case("68 one of 60 shops")
def shop(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(8000, 5)), columns=list("abcde"))
    X["shop"] = [f"shop {i}" for i in rng.integers(0, 60, len(X))]
    segment_R = (X["shop"] == "shop 17").to_numpy()
    y = ((X.a - X.b > 0) ^ (rng.random(len(X)) < 0.07)).to_numpy().astype(int)

    def predict(rows: pd.DataFrame) -> np.ndarray:
        one_R = rows.a - rows.b > 0
        if not healthy:
            one_R = one_R ^ (rows["shop"] == "shop 17")
        return np.where(one_R, 0.93, 0.07)

    codes = ("BEH201", "BEH302")
    return Case(predict=predict, X=X, y=y, codes=codes, segment_R=segment_R)
