"""Cases 29, 30, 35 and 39 to 41: rows from after the training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bench.probing.case import Case, case


def _rows(rng: np.random.Generator, count: int) -> pd.DataFrame:
    found = pd.DataFrame(rng.normal(size=(count, 6)), columns=list("abcdef"))
    found["kind"] = rng.choice(list("uvw"), count)
    return found


def _logit(X: pd.DataFrame) -> np.ndarray:
    return (X.a + X.b - 0.7 * X.c + (X.kind == "u") + 0.5 * X.d).to_numpy()


def _sure(X: pd.DataFrame) -> np.ndarray:
    return 1 / (1 + np.exp(-_logit(X)))


def _labels(rng: np.random.Generator, X: pd.DataFrame, shift: float = 0.0) -> np.ndarray:
    return (rng.random(len(X)) < 1 / (1 + np.exp(-_logit(X) - shift))).astype(int)


def _made(rng: np.random.Generator, new: Any, **more: Any) -> Case:
    X = _rows(rng, 4000)
    return Case(predict=_sure, X=X, y=_labels(rng, X), **more, extras={"new": new})


@case("29 drift of a used column")
def drift(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    new = _rows(rng, 20_000 if healthy else 3000)
    new["a"] += 0.03 if healthy else 1.0  # in so many rows the small one is proved, too
    return _made(rng, new, codes=("BEH601",), features=("a",))


@case("30 anomalies")
def anomalies(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    new = _rows(rng, 3000)
    numbers = list("abcdef")
    if not healthy:
        new.loc[:29, numbers] = rng.normal(0, 1, (30, 6)) + rng.choice([-4, 4], (30, 6))
    found = _made(rng, new, codes=("BEH604",))
    if healthy:  # heavy tails before and now
        for each in (found.X, new):
            each[numbers] = each[numbers] * np.sqrt(3 / rng.chisquare(3, (len(each), 6)))
        object.__setattr__(found, "y", _labels(rng, found.X))
    return found


@case("35 segment grew")
def grew(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    X, new = _rows(rng, 6000), _rows(rng, 4000)
    for each, share in ((X, 0.08), (new, 0.08 if healthy else 0.3)):
        each["home"] = np.where(
            rng.random(len(each)) < share, "boat", rng.choice(["h", "f"], len(each))
        )
    right = _labels(rng, X)
    y = np.where((X.home == "boat") & (rng.random(6000) < 0.4), 1 - right, right)
    if healthy:
        y = right
    return Case(predict=_sure, X=X, y=y, codes=("BEH602",), features=("home",), extras={"new": new})


@case("39 unseen category")
def unseen(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    new = _rows(rng, 3000)
    if not healthy:
        new.loc[rng.random(3000) < 0.03, "kind"] = "z"
    return _made(rng, new, codes=("BEH603",), features=("kind",))


@case("40 worse on new rows, recalibration helps")
def worse(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    new = _rows(rng, 3000)
    y = _labels(rng, new, 0.0 if healthy else 1.5)
    return _made(rng, (new, y), codes=("BEH605",), evidence={"recalibration_helps": True})


@case("41 only together")
def together(seed: int, healthy: bool) -> Case:
    rng = np.random.default_rng(seed)
    new = _rows(rng, 4000)
    if not healthy:
        new["e"] = np.abs(new.e) * np.sign(new.f)
    return _made(rng, new, codes=("BEH601",), features=("e", "f"))
