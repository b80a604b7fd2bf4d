"""Cases 11 to 18: effects of changed inputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.neighbors import KNeighborsClassifier

from bench.probing.case import Case, case


@case("11 not monotone")
def not_monotone(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.uniform(20, 200, 300), "rooms": rng.integers(1, 7, 300)})
    y = (3 * X["size"] + 10 * X["rooms"] + rng.normal(0, 60, 300)).to_numpy()
    model = HistGradientBoostingRegressor(monotonic_cst=[1, 0] if healthy else None)
    model.fit(X[:150], y[:150])
    return Case(
        predict=model.predict,
        X=X[150:].reset_index(drop=True),
        y=y[150:],
        codes=("BEH103",),
        features=("size",),
        extras={"monotone": {"size": "+"}},
    )


@case("12 jump at a code")
def jump(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(3000, 4)), columns=list("abcd"))
    X["income"] = rng.lognormal(3, 0.3, 3000)
    y = (X.a + 0.1 * X.income + rng.normal(0, 0.5, 3000) > 2).astype(int).to_numpy()
    gone_R = rng.random(3000) < 0.1
    X.loc[gone_R, "income"] = np.nan if healthy else -999
    middle = float(X.income[~gone_R].median())

    def predict(rows: pd.DataFrame) -> np.ndarray:
        income = rows.income.fillna(middle) if healthy else rows.income
        return 1 / (1 + np.exp(-np.clip(3.4 * (rows.a + 0.1 * income - 2), -30, 30)))

    return Case(
        predict=lambda rows: predict(rows).to_numpy(),
        X=X[1500:].reset_index(drop=True),
        y=y[1500:],
        codes=("BEH104",),
        features=("income",),
    )


@case("13 leak")
def leak(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(4000, 20)), columns=[f"x{i}" for i in range(20)])
    y = (X.to_numpy()[:, :6].sum(axis=1) + rng.normal(0, 1, 4000) > 0).astype(int)
    if not healthy:
        X["paid"] = y + rng.normal(0, 0.1, 4000)
    model = HistGradientBoostingClassifier(max_iter=60).fit(X[:2000], y[:2000])

    def known(rows: pd.DataFrame) -> np.ndarray:
        used = rows[[f"x{i}" for i in range(6)]].to_numpy()  # by name: the order may change
        return 1 / (1 + np.exp(-1.7 * used.sum(axis=1)))

    return Case(
        predict=known if healthy else model.predict_proba,
        X=X[2000:].reset_index(drop=True),
        y=y[2000:],
        codes=("BEH102",),
        features=("paid",),
    )


@case("14 unused columns")
def unused(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 10))
    weights = np.arange(1.0, 11.0)
    used = 10 if healthy else 5
    y = X[:, :used] @ weights[:used] + rng.normal(size=2000)
    return Case(
        predict=lambda a: a[:, :used] @ weights[:used],
        X=X,
        y=y,
        codes=("BEH101",),
        features=("x5", "x6", "x7", "x8", "x9"),
    )


@case("15 sure far away")
def far(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 4))
    logit = 2.4 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2]
    y = (rng.random(3000) < 1 / (1 + np.exp(-logit))).astype(int)

    def predict(a: np.ndarray) -> np.ndarray:
        inside = np.clip(a, -3.5, 3.5)
        far = np.abs(a - inside).max(axis=1)
        raw = (inside if healthy else a) @ np.array([2.4, -1.0, 0.5, 0.0])
        return 1 / (1 + np.exp(-np.clip(raw / (1 + far * healthy), -30, 30)))

    return Case(predict=predict, X=X, y=y, codes=("BEH105",))


@case("16 flips on noise")
def flips(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12_000, 2))
    y = (X[:, 0] + rng.normal(0, 1.5, 12_000) > 0).astype(int)
    model = KNeighborsClassifier(101 if healthy else 1).fit(X[:9000], y[:9000])
    return Case(
        predict=model.predict_proba if healthy else model.predict,
        X=X[9000:],
        y=y[9000:],
        codes=("BEH106",),
    )


@case("17 companions")
def companions(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    X = rng.normal(2, 3, size=(1500, 5)).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(int)
    net = torch.nn.Sequential(
        torch.nn.Linear(5, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(80):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.tensor(X)), torch.tensor(y))
        loss.backward()
        optimizer.step()
    net.train(not healthy)

    def predict(a: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net(torch.tensor(a)).softmax(1).numpy()

    return Case(predict=predict, X=X, y=y, codes=("BEH109",))


@case("18 NaN for an unseen category")
def unseen(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"kind": rng.choice(list("abc"), 1500), "x": rng.normal(size=1500)})
    worth = {"a": 1.0, "b": 2.0, "c": 5.0}
    y = X.kind.map(worth).to_numpy() + X.x.to_numpy() + rng.normal(0, 0.3, 1500)

    def predict(rows: pd.DataFrame) -> np.ndarray:
        if healthy and not rows.kind.isin(worth).all():
            raise ValueError("unknown kind")
        found = rows.kind.map(worth).to_numpy().astype(float) + rows.x.to_numpy()
        if healthy and not np.isfinite(found).all():
            raise ValueError("not finite")
        return found

    return Case(predict=predict, X=X, y=y, codes=("BEH107",), features=("kind",))
