"""Processor time that watching adds to a training of boosted trees, of the whole process.

Plain and watched training runs take turns in one process, in several processes one at a time. The
ratio compares processor times of all threads; its interval draws processes, then pairs. The start
and the end of a recorded run, some 0.1 s, lie outside of what is timed; the first round with all
that is looked at once lies inside.

Run: python bench/trees.py [--library xgboost] [--rounds 60] [--pairs 9] [--processes 3]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROWS, COLUMNS = 15_000, 20
LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn")


def table() -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels of two classes."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS * 4 // 3, COLUMNS)).astype(np.float32)
    lean = features[:, 0] + features[:, 1] * features[:, 2]
    return features, (lean + rng.normal(size=len(features)) > 0).astype(np.float32)


def xgboost(rounds: int) -> Callable[[], Any]:
    """Return a training."""
    import xgboost

    x, y = table()

    def train() -> Any:
        data = xgboost.DMatrix(x[:ROWS], y[:ROWS])
        valid = xgboost.DMatrix(x[ROWS:], y[ROWS:])
        params = {"objective": "binary:logistic", "max_depth": 6, "nthread": 1}
        evals = [(data, "train"), (valid, "valid")]
        return xgboost.train(params, data, rounds, evals=evals, verbose_eval=False)

    return train


def lightgbm(rounds: int) -> Callable[[], Any]:
    """Return a training."""
    import lightgbm

    x, y = table()

    def train() -> Any:
        data = lightgbm.Dataset(x[:ROWS], y[:ROWS])
        valid = lightgbm.Dataset(x[ROWS:], y[ROWS:], reference=data)
        params = {"objective": "binary", "num_threads": 1, "verbose": -1}
        return lightgbm.train(params, data, rounds, valid_sets=[data, valid])

    return train


def catboost(rounds: int) -> Callable[[], Any]:
    """Return a training."""
    import catboost

    x, y = table()

    def train() -> Any:
        model = catboost.CatBoostClassifier(
            iterations=rounds, thread_count=1, verbose=False, allow_writing_files=False
        )
        return model.fit(x[:ROWS], y[:ROWS], eval_set=(x[ROWS:], y[ROWS:]))

    return train


def sklearn(rounds: int) -> Callable[[], Any]:
    """Return a training of a network."""
    import warnings

    from sklearn.neural_network import MLPClassifier

    x, y = table()
    warnings.simplefilter("ignore")

    def train() -> Any:
        return MLPClassifier((64,), max_iter=max(2, rounds // 30), random_state=0).fit(
            x[:ROWS], y[:ROWS]
        )

    return train


def measure(library: str, rounds: int, pairs: int) -> list[float]:
    """Return the ratio of watched to plain processor time of each pair."""
    from mothtrap.session import adapters, watching

    train, adapter = globals()[library](rounds), adapters.load(library)
    train()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            plain = _timed(train)
            worker = watching._begin([adapter], f"r{pair}", {"runs_dir": folder})
            handle = worker.attach(adapter)
            watched = _timed(train)
            watching._close(worker, [handle], None)
            ratios.append(watched / plain)
    return ratios


def _timed(train: Callable[[], Any]) -> float:
    began = time.process_time()
    train()
    return time.process_time() - began


def interval(ratios: list[list[float]], draws: int = 2000) -> tuple[float, float, float]:
    """Return the median of all ratios, and the 2.5th and 97.5th percentile of drawn medians."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        processes = rng.integers(0, len(ratios), len(ratios))
        drawn = [rng.choice(ratios[each], len(ratios[each])) for each in processes]
        found.append(np.median(np.concatenate(drawn)))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(np.median(np.concatenate(ratios))), float(low), float(high)


def main() -> None:
    """Measure each library, and print a line for it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--library", choices=LIBRARIES, action="append")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.library[0], asked.rounds, asked.pairs)))
        return
    for library in asked.library or LIBRARIES:
        words = ["--one", "--library", library, "--rounds", asked.rounds, "--pairs", asked.pairs]
        ratios = []
        for _ in range(asked.processes):
            done = subprocess.run(
                [sys.executable, str(Path(__file__)), *map(str, words)],
                stdout=subprocess.PIPE,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                text=True,
                check=True,
            )
            ratios.append(json.loads(done.stdout))
        middle, low, high = interval(ratios)
        print(
            f"{library:9} {asked.rounds:5} rounds  {middle:.3f} [{low:.3f}, {high:.3f}]", flush=True
        )


if __name__ == "__main__":
    main()
