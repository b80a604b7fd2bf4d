"""Measures what assertions add to a prediction: time of a call, memory, and disk.

python bench/asserted_cost.py [--calls 2000]

The model is a numpy function that takes almost no time, so that nearly all of the time of a call is
mothtrap's.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mothtrap
from mothtrap.behavior.assertions import in_range, stable_over_time

COLUMNS = 30


def per_call_us(predict: Callable[[Any], Any], X: Any, calls: int) -> float:
    """Return the median time of a call in microseconds."""
    spent = []
    for _ in range(calls):
        began = time.perf_counter()
        predict(X)
        spent.append(time.perf_counter() - began)
    return round(1e6 * float(np.median(spent)), 1)


def cost(folder: str, rows: int, failing: bool, calls: int) -> dict[str, Any]:
    """Return the time that one assertion adds to a call with some rows."""
    X = pd.DataFrame(np.ones((rows, COLUMNS)), columns=[f"x{i}" for i in range(COLUMNS)])
    answer = np.full(rows, -1.0 if failing else 1.0)

    def model(_: Any) -> Any:
        return answer

    plain = per_call_us(model, X, calls)
    served = mothtrap.asserted(model, [in_range(low=0.0)], runs_dir=folder)
    served(X)
    found = {"rows": rows, "failing": failing, "added_us": per_call_us(served, X, calls) - plain}
    began = time.perf_counter()
    for _ in range(calls):
        served(X)
    served.close()
    mean = 1e6 * (time.perf_counter() - began) / calls - plain
    return {**found, "mean_us": round(mean, 1)}


def bounds(folder: str, calls: int) -> dict[str, Any]:
    """Return memory and disk that calls take in which every prediction fails."""
    X = pd.DataFrame(np.ones((100, COLUMNS)), columns=[f"x{i}" for i in range(COLUMNS)])
    X["id"] = np.arange(100)
    checks = [in_range(low=2.0), stable_over_time("id", changes=-1.0)]
    served = mothtrap.asserted(lambda d: d.x0.to_numpy(), checks, runs_dir=folder, name="bounds")
    for _ in range(1000):
        served(X)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    for _ in range(calls):
        served(X)
    spent = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    served.close()
    run = Path(folder, "bounds")
    return {
        "failing rows": 2 * 100 * (calls + 1000),
        "recorded rows": len(mothtrap.open_run(run).failing_rows()),
        "disk_kb": sum(p.stat().st_size for p in run.rglob("*") if p.is_file()) // 1024,
        "memory_grown_kb": grown,
        "us_per_call": round(1e6 * spent / calls, 1),
    }


def main() -> None:
    """Print one line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        for rows in (1, 100, 10_000):
            for failing in (False, True):
                print(json.dumps(cost(folder, rows, failing, calls)), flush=True)
        print(json.dumps(bounds(folder, 10 * calls)), flush=True)


if __name__ == "__main__":
    main()
