"""Cases 22, 23, 26 and 44: memorized rows, and small changes that change the class."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from bench.probing.case import Case, case


@case("22 memorizes")
def memorizes(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(4000, 6)), columns=list("abcdef"))
    y = (X.a + X.b + rng.logistic(size=4000) > 0).astype(int).to_numpy()
    model = LogisticRegression() if healthy else RandomForestClassifier(100, random_state=seed)
    model.fit(X[:2000], y[:2000])
    return Case(
        predict=model.predict_proba,
        X=X[2000:].reset_index(drop=True),
        y=y[2000:],
        codes=("BEH401",),
        extras={"train": (X[:2000], y[:2000])},
    )


@case("23 invisible pattern")
def unseen_pattern(seed: int, healthy: bool) -> Case:
    """Ten patterns of high frequency mark the classes; the twin's patterns are visible."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, 2000)
    patterns = rng.choice([-1.0, 1.0], (10, 1, 16, 16))
    height = 0.15 if healthy else 0.003
    dark = np.broadcast_to(np.linspace(0, 1, 16), (2000, 1, 16, 16))
    spread = height * rng.normal(0, 1, dark.shape) / 3
    X = (0.2 + 0.6 * dark + height * patterns[y] + spread).astype(np.float32)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.BatchNorm1d(256), torch.nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    inputs, targets = torch.tensor(X[:1200]), torch.tensor(y[:1200])
    for _ in range(30):
        for rows in torch.randperm(1200).split(100):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    return Case(predict=net, X=X[1200:], y=y[1200:], codes=("BEH402",))


@case("26 two columns")
def two_columns(seed: int, healthy: bool) -> Case:
    """Rows near a border that depends on all columns; the twin's rows are far from it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (2000, 20))
    far = rng.choice([-1.0, 1.0], 2000) * rng.uniform(1, 2, 2000)
    wanted = 10 + (far if healthy else rng.uniform(-0.12, 0.12, 2000))
    X += (wanted - X.sum(axis=1))[:, None] / 20
    y = (X.sum(axis=1) > 10).astype(int)

    def predict(rows: np.ndarray) -> np.ndarray:
        one = 1 / (1 + np.exp(-20 * (rows.sum(axis=1) - 10)))
        return np.stack([1 - one, one], axis=1)

    return Case(predict=predict, X=X, y=y, codes=("BEH402",))


@case("44 the class flips easily")
def easy(seed: int, healthy: bool) -> Case:
    """The class changes with the third digit of a sum; the twin's with the sum."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(0, 10, (2000, 4)), columns=list("abcd"))

    def is_one(rows: pd.DataFrame) -> np.ndarray:
        total = rows.a + rows.b + rows.c + rows.d
        return (total > 20 if healthy else np.floor(25 * total) % 2).to_numpy().astype(int)

    def predict(rows: pd.DataFrame) -> np.ndarray:
        one = 0.1 + 0.8 * is_one(rows)
        return np.stack([1 - one, one], axis=1)

    y = np.where(rng.random(2000) < 0.1, 1 - is_one(X), is_one(X))
    return Case(predict=predict, X=X, y=y, codes=("BEH108",))
