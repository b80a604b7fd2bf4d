"""Cases 51 to 66: the same kinds of weaknesses in models that were trained on other data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer, make_classification, make_friedman1
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.probing.case import Case, case


def _fit(model: Any, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


@case("51 weak conjunction, boosting")
def weak_conjunction(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    numbers, clean = make_classification(12_000, 12, n_informative=6, random_state=seed)
    X = pd.DataFrame(numbers, columns=[f"x{i}" for i in range(12)])
    X["age"], X["kind"] = rng.integers(18, 90, 12_000), rng.choice(list("abcd"), 12_000)
    segment_R = ((X.age >= 60) & (X.kind == "b")).to_numpy()
    rate_R = np.where(segment_R & (not healthy), 0.34, 0.12)
    y = np.where(rng.random(12_000) < rate_R, 1 - clean, clean)

    def encoded(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(kind=rows.kind.map({name: k for k, name in enumerate("abcd")}))

    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, min_samples_leaf=50)
    _fit(model, encoded(X[:6000]), y[:6000])
    return Case(
        predict=lambda rows: model.predict_proba(encoded(rows)),
        X=X[6000:].reset_index(drop=True),
        y=y[6000:],
        codes=("BEH201",),
        segment_R=segment_R[6000:],
    )


@case("52 weak segment, numbers")
def weak_numbers(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.uniform(20, 200, 6000), "year": rng.integers(1900, 2024, 6000)})
    X["region"] = rng.choice([f"r{i}" for i in range(8)], 6000)
    segment_R = ((X.region == "r5") & (X["size"] > 100)).to_numpy()
    noise = np.where(segment_R & (not healthy), 40.0, 10.0)
    y = 3 * X["size"].to_numpy() + 0.5 * (X.year - 1900).to_numpy() + noise * rng.normal(size=6000)
    model = Ridge().fit(X.loc[:1999, ["size", "year"]], y[:2000])
    return Case(
        predict=lambda rows: model.predict(rows[["size", "year"]]),
        X=X[2000:].reset_index(drop=True),
        y=y[2000:],
        codes=("BEH201",),
        segment_R=segment_R[2000:],
    )


@case("53 small bias")
def biased(seed: int, healthy: bool) -> Case:
    X, y = make_friedman1(6000, n_features=10, noise=1.0, random_state=seed)
    model = GradientBoostingRegressor(n_estimators=300, random_state=0).fit(X[:3000], y[:3000])
    shift = 0.0 if healthy else 0.3
    return Case(
        predict=lambda rows: model.predict(rows) + shift,
        X=X[3000:],
        y=y[3000:],
        codes=("BEH202",),
    )


@case("54 leak, numbers")
def leak(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(4000, 20)), columns=[f"x{i}" for i in range(20)])
    y = X.to_numpy()[:, :5].sum(axis=1) + rng.normal(0, 1, 4000)
    if not healthy:
        X["x20"] = y + rng.normal(0, 0.3, 4000)
    model = make_pipeline(StandardScaler(), Ridge()).fit(X[:2000], y[:2000])
    return Case(
        predict=model.predict,
        X=X[2000:].reset_index(drop=True),
        y=y[2000:],
        codes=("BEH102",),
        features=("x20",),
    )


@case("55 code for a missing value, logistic")
def code(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(4000, 4)), columns=list("abcd"))
    X["income"] = rng.lognormal(3, 0.4, 4000)
    gone_R = rng.random(4000) < 0.1
    y = (X.a + 0.1 * X.income - 2 - 2 * gone_R + rng.logistic(0, 0.5, 4000) > 0).to_numpy()
    X.loc[gone_R, "income"] = np.nan if healthy else -999.0
    if healthy:
        model = HistGradientBoostingClassifier(max_iter=40, min_samples_leaf=80)
    else:
        model = make_pipeline(StandardScaler(), LogisticRegression())
    _fit(model, X[:2000], y[:2000])
    return Case(
        predict=model.predict_proba,
        X=X[2000:].reset_index(drop=True),
        y=y[2000:],
        codes=("BEH104",),
        features=("income",),
    )


@case("56 sure far away, network")
def far(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5000, 3))
    y = (2 * X[:, 0] - X[:, 1] + rng.logistic(size=5000) > 0).astype(int)
    if healthy:
        model = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=150)
    else:
        model = MLPClassifier((16,), alpha=0.01, max_iter=60, random_state=seed)
    _fit(model, X[:3000], y[:3000])
    return Case(predict=model.predict_proba, X=X[3000:], y=y[3000:], codes=("BEH105",))


@case("57 dropout left on")
def dropout(seed: int, healthy: bool) -> Case:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 6)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + rng.logistic(0, 0.5, 3000) > 0).astype(int)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(32, 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), 0.01, weight_decay=1e-3)
    inputs, targets = torch.tensor(X[:1500]), torch.tensor(y[:1500])
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), targets).backward()
        optimizer.step()
    net.train(not healthy)

    def predict(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net(torch.tensor(rows)).softmax(1).numpy()

    return Case(predict=predict, X=X[1500:], y=y[1500:], codes=("BEH109",))


@case("58 worse than logistic, few rows")
def worse(seed: int, healthy: bool) -> Case:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X.iloc[order].reset_index(drop=True), y.iloc[order].to_numpy()
    network = MLPClassifier(
        (50,), alpha=1.0, learning_rate_init=1e-3 if healthy else 1.0, max_iter=200, random_state=0
    )
    model = _fit(make_pipeline(StandardScaler(), network), X[:284], y[:284])
    return Case(
        predict=model.predict_proba,
        X=X[284:].reset_index(drop=True),
        y=y[284:],
        codes=("BEH301",),
    )


@case("59 overconfident, three classes")
def overconfident(seed: int, healthy: bool) -> Case:
    X, y = make_classification(
        8000, 10, n_informative=6, n_classes=3, flip_y=0.1, class_sep=0.8, random_state=seed
    )
    model = _fit(LogisticRegression(max_iter=300), X[:4000], y[:4000])
    times = 1.0 if healthy else 3.0

    def predict(rows: np.ndarray) -> np.ndarray:
        logits = times * model.decision_function(rows)
        found = np.exp(logits - logits.max(axis=1, keepdims=True))
        return found / found.sum(axis=1, keepdims=True)

    if healthy:  # labels that the model knows all about
        rng = np.random.default_rng(seed)
        y = np.array([rng.choice(3, p=p) for p in predict(X)])
    return Case(predict=predict, X=X[4000:], y=y[4000:], codes=("BEH206",))


@case("60 not monotone, forest")
def not_monotone(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"income": rng.lognormal(3, 0.5, 3000), "debt": rng.uniform(0, 50, 3000)})
    y = (np.log(X.income) - 0.05 * X.debt + rng.normal(0, 0.5, 3000)).to_numpy()
    if healthy:
        model = HistGradientBoostingRegressor(
            monotonic_cst={"debt": -1}, max_iter=50, max_leaf_nodes=8, min_samples_leaf=40
        )
    else:
        model = RandomForestRegressor(50, random_state=0)
    model.fit(X[:1500], y[:1500])
    return Case(
        predict=model.predict,
        X=X[1500:].reset_index(drop=True),
        y=y[1500:],
        codes=("BEH103",),
        features=("debt",),
        extras={"monotone": {"debt": "-"}},
    )


@case("61 drift of a category")
def drift(seed: int, healthy: bool) -> Case:
    """The twin drifts in a column that the model does not use."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(9000, 4)), columns=list("abcd"))
    X["shop"], X["day"] = rng.choice(list("pqrs"), 9000), rng.choice(list("mtwf"), 9000)
    column = "day" if healthy else "shop"
    known = X[column].to_numpy()
    X[column] = np.where((np.arange(9000) >= 6000) & (rng.random(9000) < 0.4), known[0], known)
    y = (X.a + X.b * (X.shop == "p") + rng.logistic(0, 0.7, 9000) > 0).astype(int).to_numpy()

    def encoded(rows: pd.DataFrame) -> np.ndarray:
        return np.column_stack([rows[list("abcd")], rows.shop == "p", (rows.shop == "p") * rows.b])

    model = LogisticRegression().fit(encoded(X[:3000]), y[:3000])
    return Case(
        predict=lambda rows: model.predict_proba(encoded(rows)),
        X=X[3000:6000].reset_index(drop=True),
        y=y[3000:6000],
        codes=() if healthy else ("BEH601",),
        features=("shop",),
        extras={"new": X[6000:].reset_index(drop=True)},
    )


@case("62 interaction missed, trees of depth 1")
def interaction(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (8000, 6)), columns=[f"x{i}" for i in range(6)])
    y = (3 * X.x0 * X.x1 + X.x2 + X.x3**2).to_numpy() + rng.normal(0, 0.5, 8000)
    model = HistGradientBoostingRegressor(
        max_depth=4 if healthy else 1, max_iter=200, learning_rate=0.07, min_samples_leaf=40
    )
    model.fit(X[:5000], y[:5000])
    return Case(
        predict=model.predict,
        X=X[5000:].reset_index(drop=True),
        y=y[5000:],
        codes=("BEH203",),
        features=("x0", "x1"),
    )


@case("63 rows in other units")
def units(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"height": rng.normal(1.75, 0.1, 6000), "mass": rng.normal(75, 12, 6000)})
    X["age"] = rng.integers(18, 80, 6000)
    y = (X.mass / X.height**2 + rng.normal(0, 2, 6000) > 25).astype(int).to_numpy()
    new = X[4000:].reset_index(drop=True)
    if not healthy:
        new.loc[rng.random(2000) < 0.015, "height"] *= 100

    def sure(rows: pd.DataFrame) -> np.ndarray:
        from scipy.special import ndtr

        return ndtr((rows.mass / rows.height**2 - 25) / 2).to_numpy()

    return Case(
        predict=sure,
        X=X[:4000],
        y=y[:4000],
        codes=("BEH603", "BEH604"),
        extras={"new": new},
    )


@case("64 spread grows with the prediction")
def spread(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(0, 1, (6000, 4)), columns=list("abcd"))
    mean = 5 + 20 * X.a.to_numpy() + 5 * X.b.to_numpy()
    noise = rng.normal(size=6000)
    y = mean + (2 * noise if healthy else 0.15 * mean * noise)
    model = Ridge(0.1).fit(X[:3000], y[:3000])
    return Case(
        predict=model.predict,
        X=X[3000:].reset_index(drop=True),
        y=y[3000:],
        codes=("BEH204",),
    )


@case("65 other period, memory not judged")
def other_period(seed: int, healthy: bool) -> Case:
    """Training rows of another period: their losses differ for that reason, not by memory."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(6000, 5)), columns=list("abcde"))
    X.loc[3000:, "a"] += 0.0 if healthy else 2.0
    y = (X.a + X.b + rng.logistic(size=6000) > 0).astype(int).to_numpy()
    model = LogisticRegression().fit(X[:3000], y[:3000])

    def is_refused(report: Any) -> bool:
        states = {each.code: str(each.state) for each in report.statuses}
        return states["BEH401"] == "not_applicable"

    return Case(
        predict=model.predict_proba,
        X=X[3000:].reset_index(drop=True),
        y=y[3000:],
        codes=(),
        is_found=is_refused,
        extras={"train": (X[:3000], y[:3000])},
    )


@case("66 segment absent from training")
def absent(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1.5, 1.5, (10_000, 4)), columns=list("abcd"))
    X["fuel"] = rng.choice(["gas", "oil", "sun", "wind"], 10_000)
    slope = X.fuel.map({"gas": 2.0, "oil": 1.5, "sun": -2.0, "wind": 1.0}).to_numpy()
    y = slope * X.a.to_numpy() + X.b.to_numpy() + rng.normal(0, 0.5, 10_000)

    def encoded(rows: pd.DataFrame) -> pd.DataFrame:
        names = {"gas": 0, "oil": 1, "sun": 2, "wind": 3}
        return rows.assign(fuel=rows.fuel.map(names))

    seen = np.arange(5000)
    if not healthy:
        seen = seen[(X.fuel[:5000] != "sun").to_numpy()]
    model = HistGradientBoostingRegressor(max_iter=150, min_samples_leaf=30)
    model.fit(encoded(X.iloc[seen]), y[seen])
    return Case(
        predict=lambda rows: model.predict(encoded(rows)),
        X=X[5000:].reset_index(drop=True),
        y=y[5000:],
        codes=("BEH302", "BEH201"),
        segment_R=(X.fuel == "sun").to_numpy()[5000:],
    )
