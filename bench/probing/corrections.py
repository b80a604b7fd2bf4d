"""Cases 34 and 43: transformations of training rows, and patches of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.probing.case import Case, case


@case("34 flip that changes the label")
def flipped(seed: int, healthy: bool) -> Case:
    """A digit turned upside down is another digit; a digit turned by 5 degrees stays the same."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(
        X[:1000], y[:1000]
    )
    name = "rotate by 5 degrees" if healthy else "flip up and down"

    def is_unsafe(report: Any) -> bool:
        found = {each.name: each for each in report.augmentations("image", trials=False)}
        return not found[name].is_safe

    return Case(
        predict=lambda images: model.predict_proba(images.reshape(len(images), -1)),
        X=X[1000:].reshape(-1, 8, 8),
        y=y[1000:],
        codes=(),
        is_found=is_unsafe,
    )


@case("43 patch that harms elsewhere")
def harmful(seed: int, healthy: bool) -> Case:
    """A patch makes the model more confident in one segment; the harmful patch also spoils another
    segment."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(6000, 4)), columns=list("abcd"))
    X["kind"] = rng.choice(list("uvw"), 6000)
    one_R = (X.a + X.b > 0).to_numpy()
    y = np.where(rng.random(6000) < 0.1, ~one_R, one_R).astype(int)

    def right(rows: pd.DataFrame, sure: Any = 0.9) -> np.ndarray:
        return np.where(rows.a + rows.b > 0, sure, 1 - sure)

    def patch(rows: pd.DataFrame, _: Any) -> np.ndarray:
        spoiled = (rows.kind == "u") & (rows.c > 0.8) & (not healthy)
        return np.where(spoiled, 0.5, right(rows))

    return Case(
        predict=lambda rows: right(rows, np.where(rows.kind == "w", 0.8, 0.9)),
        X=X,
        y=y,
        codes=(),
        is_found=lambda report: not report.patch(patch).accepted,
    )
