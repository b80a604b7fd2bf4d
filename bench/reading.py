"""Cost of reading: opening a run cold, one query, and following it as it grows.

Each cold read is a separate process, so it pays for its imports and reads every byte that it needs;
the files are in the page cache of the system. The run has one batch per step, as a slow training
run writes it. This is the largest number of batches that a run can have. A second run has a tenth
of the steps, so that it shows how the time grows with them.

The goals are less than `ANSWERED_S` from start to the first answer for 10,000 steps of 200 tensors,
and at most `GROWTH` times as long for ten times the steps.

Run: python bench/reading.py [--steps N] [--tensors T] [--runs R]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

COLD = """
import json, resource, sys, time
began = time.perf_counter()
import mothtrap
run = mothtrap.open_run(sys.argv[1])
opened = time.perf_counter()
series = run.tensor("gradient:layer7.weight").history("l2")
answered = time.perf_counter()
assert len(series) == run.steps == int(sys.argv[2])
again = time.perf_counter()
run.tensor("gradient:layer8.weight").history("max")
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "import and open": opened - began,
    "first question": answered - opened,
    "both": answered - began,
    "another question": time.perf_counter() - again,
    "processor": used.ru_utime + used.ru_stime,
    "memory MB": used.ru_maxrss / 1024,
}))
"""
ANSWERED_S = 1.0
GROWTH = 12.0
SCALARS = ("loss", "lr", "gradient_norm", "step_s", "own_s", "micro_batches")


def main(words: Sequence[str] | None = None) -> None:
    """Write two runs, read them cold several times, then follow a growing run; print the
    results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--tensors", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args(words)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    both_s = []
    with tempfile.TemporaryDirectory() as folder:
        for steps in (arguments.steps // 10, arguments.steps):
            run = Path(folder) / f"run{steps}"
            write(run, steps, arguments.tensors)
            size = sum(f.stat().st_size for f in run.rglob("*.arrow")) / 1e6
            print(f"\n{steps} steps x {arguments.tensors} tensors, {size:.0f} MB, seconds:")
            both_s.append(cold(run, steps, arguments.runs)["both"])
        grown = both_s[1] / both_s[0]
        print(f"\nanswered after {both_s[1]:.2f} s (wanted: {ANSWERED_S:g} s at most)")
        print(f"ten times the steps: {grown:.1f} times the time (wanted: {GROWTH:g} at most)")
        print(f"\nfollowing a run of {arguments.steps} steps, milliseconds for each new step:")
        follow(Path(folder) / "growing", arguments.steps, arguments.tensors)


def write(folder: Path, steps: int, tensors: int, *, like_norms: bool = False) -> None:
    """Write a run that has ended; `like_norms`: see `record`."""
    log = start(folder, pid=2**30)
    for step in range(steps):
        log.append([record(step, tensors, like_norms=like_norms)])
    log.close()


def start(folder: Path, pid: int, command: Sequence[str] = ("bench",)):  # type: ignore[no-untyped-def]
    """Begin a run of one worker; return its log."""
    from mothtrap.core.runs import RunInfo
    from mothtrap.store import layout
    from mothtrap.store.worker_log import WorkerLog

    info = RunInfo(
        id=folder.name,
        attempt=1,
        command=tuple(command),
        cwd=".",
        created_s=time.time(),
        pid=pid,
        host=platform.node(),
        python=platform.python_version(),
        mothtrap="bench",
    )
    return WorkerLog(layout.claim_worker(layout.create_run(folder, info))[1])


def record(step: int, tensors: int, *, like_norms: bool = False):  # type: ignore[no-untyped-def]
    """Make the record of a step; the first defines the tensors.

    Statistics are incompressible noise, or with `like_norms` magnitudes per tensor, over six powers
    of ten, which fall slowly, with noise of a fifth.
    """
    from mothtrap.core.records import Scalar, StepRecord
    from mothtrap.core.steps import StepKey
    from mothtrap.core.tensors import TensorInfo
    from mothtrap.statistics.summary import WIDTH

    names = [f"layer{number}.weight" for number in range(tensors)] if step == 0 else []
    noise = np.random.default_rng(step)
    rows = noise.random((tensors, WIDTH))
    if like_norms:
        size_T = 10 ** np.random.default_rng(0).uniform(-4, 2, (tensors, 1)) / (1 + step / 300)
        rows = size_T * (1 + 0.2 * noise.normal(size=rows.shape))
    rows[:, :4] = (1000, 0, 0, 0)
    return StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=time.time(),
        optimizers=("adam",),
        defined=tuple(enumerate(TensorInfo(kind="gradient", name=name) for name in names)),
        tensor_T=np.arange(tensors, dtype=np.uint32),
        summary_TF=rows,
        scalars=tuple(Scalar(name, "", 1.0 / (step + 1)) for name in SCALARS),
    )


def cold(run: Path, steps: int, times: int) -> dict[str, float]:
    """Read in fresh processes; print the median and the least of each time, return the medians."""
    found = [json.loads(ask(run, steps)) for _ in range(times)]
    for name in found[0]:
        values = [one[name] for one in found]
        print(f"  {name:18} median {statistics.median(values):8.3f}   least {min(values):8.3f}")
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def ask(run: Path, steps: int) -> str:
    """Return the output of a fresh process that reads a run."""
    return subprocess.check_output([sys.executable, "-c", COLD, str(run), str(steps)], text=True)


def follow(folder: Path, steps: int, tensors: int) -> None:
    """Follow a run step by step, asking for a number of each; print the cost by its length."""
    import mothtrap

    log = start(folder, pid=os.getpid())
    log.append([record(0, tensors)])
    run = mothtrap.open_run(folder)
    following, tensor = run.follow(), run.tensor("gradient:layer7.weight")
    next(following)
    spent_ms, delay_ms = [], []
    for step in range(1, steps):
        item = record(step, tensors)
        log.append([item])
        began = time.perf_counter()
        status = next(following)
        delay_ms.append(1e3 * (time.perf_counter() - began))
        assert status.key.step == step
        tensor.statistics(step)
        spent_ms.append(1e3 * (time.perf_counter() - began))
    tenth = max(1, steps // 10)
    for name, values in (("delay of the reader", delay_ms), ("with one number", spent_ms)):
        first, last = statistics.median(values[:tenth]), statistics.median(values[-tenth:])
        worst = max(values)
        print(f"  {name:22} first tenth {first:.2f}, last tenth {last:.2f}, worst {worst:.1f}")
    log.close()


if __name__ == "__main__":
    main()
