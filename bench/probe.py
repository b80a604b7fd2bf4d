"""Judges `mothtrap.probe` on planted weaknesses, on noise, on bundled tables, and by time.

python bench/probe.py [--seeds 5] [--noise 200] [--first 0] [--part noise] [--only 01,07]

Results of parts are kept: a case replaces its earlier result, runs on noise are added up.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mothtrap
from bench.probing import assertions, inside, later, residuals, security, segments, sensitivity
from bench.probing.case import CASES, is_named

os.environ["MOTHTRAP_DISABLE"] = "1"  # nothing is stored
# They register their cases.
assert all((assertions, inside, later, residuals, security, segments, sensitivity))


def planted(seeds: int, only: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a row for each case: how often it was named, and false warnings of its twin."""
    rows = []
    for name, build in sorted(CASES.items()):
        if only and not name.startswith(only):
            continue
        named, false, seconds = 0, [], []
        for seed in range(seeds):
            for healthy in (False, True):
                case = build(seed, healthy)
                begun = time.perf_counter()
                report = mothtrap.probe(case.predict, case.X, case.y, seed=seed, **case.extras)
                seconds.append(time.perf_counter() - begun)
                failed = [s for s in report.statuses if s.state == "rule_failed"]
                assert not failed, failed
                if healthy:
                    loud = [f for f in report.findings if f.severity != "info"]
                    loud += [
                        f
                        for f in report.findings
                        if f.code in case.codes and f.code != "BEH201" and f.severity == "info"
                    ]
                    false += [f"{f.code} {f.message}" for f in loud]
                elif case.codes:
                    named += is_named(case, report)
                    if not is_named(case, report):
                        print(
                            "   missed",
                            name,
                            seed,
                            [(f.code, f.severity[0], f.message) for f in report.findings],
                        )
        row = {
            "case": name,
            "named": named if case.codes else None,
            "seeds": seeds,
            "false": len(false),
            "seconds": round(float(np.mean(seconds)), 2),
        }
        print(json.dumps(row), *(f"\n   false: {each}" for each in false), flush=True)
        rows.append(row)
    return rows


def noise(seeds: int, first: int = 0) -> dict[str, Any]:
    """Return how many runs on pure noise have any finding.

    The model knows all that can be known, and its errors are the same everywhere: numbers with
    noise of one size, and labels of which 15 % are wrong in every region.
    """
    loud = 0
    for seed in range(first, first + seeds):
        rng = np.random.default_rng(1000 + seed)
        X = pd.DataFrame(rng.normal(size=(1200, 8)), columns=list("abcdefgh"))
        X["kind"] = rng.choice(list("uvwx"), len(X))
        if seed % 2:
            y = _noise_number(X) + rng.normal(size=len(X))
            predict = _noise_number
        else:
            y = (_noise_number(X) > 0) ^ (rng.random(len(X)) < 0.15)
            predict = _noise_class
        found = mothtrap.probe(
            predict,
            X,
            np.asarray(y).astype(float if seed % 2 else int),
            seed=seed,
            ignore=("BEH107",),
        ).findings
        loud += bool(found)
        if found:
            print("   noise", seed, [(f.code, f.message) for f in found], flush=True)
    return {"case": "noise", "first": first, "runs": seeds, "with findings": loud}


def _noise_number(X: pd.DataFrame) -> np.ndarray:
    slope = np.sin(3 * X.a) * X.b + 0.3 * X[list("cdefgh")].sum(axis=1) + 0.2 * (X.kind == "u")
    return slope.to_numpy()


def _noise_class(X: pd.DataFrame) -> np.ndarray:
    return np.where(_noise_number(X) > 0, 0.85, 0.15)


def bundled() -> list[dict[str, Any]]:
    """Return the warnings on scikit-learn's own tables with default models."""
    from sklearn import datasets, ensemble, linear_model, neighbors, svm, tree
    from sklearn.model_selection import train_test_split

    rows = []
    for table in ("iris", "wine", "breast_cancer", "digits", "diabetes"):
        X, y = getattr(datasets, f"load_{table}")(return_X_y=True, as_frame=True)
        X_train, X_held, y_train, y_held = train_test_split(X, y, test_size=0.5, random_state=0)
        if table == "diabetes":
            models = [
                ensemble.RandomForestRegressor,
                ensemble.HistGradientBoostingRegressor,
                linear_model.LinearRegression,
                neighbors.KNeighborsRegressor,
                tree.DecisionTreeRegressor,
            ]
        else:
            models = [
                ensemble.RandomForestClassifier,
                ensemble.HistGradientBoostingClassifier,
                linear_model.LogisticRegression,
                neighbors.KNeighborsClassifier,
                tree.DecisionTreeClassifier,
                svm.SVC,
            ]
        for kind in models:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = kind().fit(X_train, y_train)
            report = mothtrap.probe(model, X_held, y_held, train=(X_train, y_train))
            loud = [f"{f.code} {f.message}" for f in report.findings if f.severity != "info"]
            row = {
                "table": table,
                "model": kind.__name__,
                "warnings": loud,
                "notes": [f.code for f in report.findings if f.severity == "info"],
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def speed() -> dict[str, Any]:
    """Return the seconds that 20,000 rows of 30 columns take."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40_000, 30)), columns=[f"x{i}" for i in range(30)])
    y = (X.x0 * X.x1 + X.x2 + rng.normal(size=40_000) > 0).astype(int)
    model = HistGradientBoostingClassifier(random_state=0).fit(X[:20_000], y[:20_000])
    begun = time.perf_counter()
    report = mothtrap.probe(
        model, X[20_000:].reset_index(drop=True), y[20_000:], train=(X[:20_000], y[:20_000])
    )
    spent = [s.code for s in report.statuses if "budget" in s.reason]
    return {
        "case": "20,000 x 30",
        "seconds": round(time.perf_counter() - begun, 1),
        "not run": spent,
    }


def main() -> None:
    """Run all parts, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--noise", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="first seed of the noise")
    parser.add_argument("--only", default="", help="beginnings of cases")
    parser.add_argument("--part", default="", help="planted, bundled, speed or noise alone")
    parser.add_argument("--keep", type=Path, default=Path("bench/probing/results.json"))
    asked = parser.parse_args()
    only = tuple(filter(None, asked.only.split(",")))
    parts: dict[str, Callable[[], Any]] = {
        "planted": lambda: planted(asked.seeds, only),
        "bundled": bundled,
        "speed": speed,
        "noise": lambda: noise(asked.noise, asked.first),
    }
    kept = json.loads(asked.keep.read_text()) if asked.keep.exists() else {}
    for name in [asked.part] if asked.part else parts:
        kept[name] = _joined(kept.get(name), parts[name]())
        print(json.dumps(kept[name]))
        asked.keep.write_text(json.dumps(kept, indent=1) + "\n")


def _joined(before: Any, found: Any) -> Any:
    """Return results with those of earlier parts."""
    if isinstance(found, list) and found and "case" in found[0]:
        named = {row["case"]: row for row in [*(before or []), *found]}
        return [named[name] for name in sorted(named)]
    if isinstance(before, dict) and found.get("first"):
        both = {key: before[key] + found[key] for key in ("runs", "with findings")}
        return {"case": "noise", **both}
    return found


if __name__ == "__main__":
    main()
