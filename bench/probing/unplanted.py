"""Models without a planted weakness: on noise, on tables of scikit-learn, and on a large table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import mothtrap


def on_noise(seed: int) -> list[str]:
    """Return the findings on pure noise.

    The model has learned everything that can be learned, and its errors are the same everywhere:
    numbers with noise of equal size, and labels of which 15 % are wrong in every region.
    """
    rng = np.random.default_rng(1000 + seed)
    X = pd.DataFrame(rng.normal(size=(1200, 8)), columns=list("abcdefgh"))
    X["kind"] = rng.choice(list("uvwx"), len(X))
    is_number = bool(seed % 2)
    if is_number:
        y = _number(X) + rng.normal(size=len(X))
    else:
        y = ((_number(X) > 0) ^ (rng.random(len(X)) < 0.15)).astype(int)
    predict = _number if is_number else _class
    report = mothtrap.probe(predict, X, y, seed=seed, ignore=("BEH107",))
    return [f"{each.code} {each.message}" for each in report.findings]


def _number(X: pd.DataFrame) -> np.ndarray:
    slope = np.sin(3 * X.a) * X.b + 0.3 * X[list("cdefgh")].sum(axis=1) + 0.2 * (X.kind == "u")
    return slope.to_numpy()


def _class(X: pd.DataFrame) -> np.ndarray:
    return np.where(_number(X) > 0, 0.85, 0.15)


def bundled() -> Iterator[dict[str, Any]]:
    """Yield the findings on scikit-learn's own tables with default models."""
    from sklearn import datasets, ensemble, linear_model, neighbors, svm, tree
    from sklearn.model_selection import train_test_split

    regressors = [
        ensemble.RandomForestRegressor,
        ensemble.HistGradientBoostingRegressor,
        linear_model.LinearRegression,
        neighbors.KNeighborsRegressor,
        tree.DecisionTreeRegressor,
    ]
    classifiers = [
        ensemble.RandomForestClassifier,
        ensemble.HistGradientBoostingClassifier,
        linear_model.LogisticRegression,
        neighbors.KNeighborsClassifier,
        tree.DecisionTreeClassifier,
        svm.SVC,
    ]
    for table in ("iris", "wine", "breast_cancer", "digits", "diabetes"):
        X, y = getattr(datasets, f"load_{table}")(return_X_y=True, as_frame=True)
        X_train, X_held, y_train, y_held = train_test_split(X, y, test_size=0.5, random_state=0)
        for kind in regressors if table == "diabetes" else classifiers:
            model = kind()
            if "random_state" in model.get_params():
                model.set_params(random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X_train, y_train)
            begun = time.process_time()
            report = mothtrap.probe(model, X_held, y_held, train=(X_train, y_train))
            yield {
                "table": table,
                "model": kind.__name__,
                "warnings": [f"{f.code} {f.message}" for f in report.findings if _is_loud(f)],
                "notes": [f"{f.code} {f.message}" for f in report.findings if not _is_loud(f)],
                "cpu_s": round(time.process_time() - begun, 2),
            }


def _is_loud(finding: Any) -> bool:
    return str(finding.severity) != "info"


def speed(rows: int = 20_000) -> dict[str, Any]:
    """Return the seconds that 20,000 rows of 30 columns take."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(2 * rows, 30)), columns=[f"x{i}" for i in range(30)])
    y = (X.x0 * X.x1 + X.x2 + rng.normal(size=2 * rows) > 0).astype(int)
    model = HistGradientBoostingClassifier(random_state=0).fit(X[:rows], y[:rows])
    begun, spent = time.perf_counter(), time.process_time()
    report = mothtrap.probe(
        model,
        X[rows:].reset_index(drop=True),
        y[rows:],
        train=(X[:rows], y[:rows]),
        budget_s=600,
    )
    return {
        "rows": rows,
        "columns": 30,
        "wall_s": round(time.perf_counter() - begun, 1),
        "cpu_s": round(time.process_time() - spent, 1),
        "not run": [s.code for s in report.statuses if "budget" in s.reason],
        "findings": [f"{f.code} {f.message}" for f in report.findings],
    }
