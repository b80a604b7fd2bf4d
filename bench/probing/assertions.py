"""Cases 31 and 32: an assertion that predictions break, and a correction that harms."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bench.probing.case import Case, case
from mothtrap.behavior.assertions import in_range


def _price(X: pd.DataFrame) -> np.ndarray:
    return np.exp(0.6 * (X.a + X.c).to_numpy())


def _prices(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(4000, 5)), columns=list("abcde"))
    return X, _price(X) + rng.normal(0, 0.2, 4000)


@case("31 assertion broken")
def broken(seed: int, healthy: bool) -> Case:
    X, y = _prices(seed)

    def predict(rows: pd.DataFrame) -> np.ndarray:
        right = _price(rows)
        return np.where((rows.b > 1.88) & (not healthy), -right, right)

    return Case(
        predict=predict,
        X=X,
        y=y,
        codes=("BEH911",),
        segment_R=(X.b > 1.88).to_numpy(),
        extras={"assertions": [in_range(low=0.0)]},
    )


@case("32 correction that harms")
def harmful(seed: int, healthy: bool) -> Case:
    X, y = _prices(seed)
    made = in_range(low=0.0, high=8.0 if not healthy else 80.0, severity="warning")
    made.correct(lambda _, predictions: np.clip(predictions, 0, 1))
    return Case(
        predict=_price,
        X=X,
        y=y,
        codes=("BEH911",),
        evidence={"correction": "harms"},
        extras={"assertions": [made]},
    )
