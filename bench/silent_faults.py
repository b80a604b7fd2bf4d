"""Silent faults of real gloo jobs of two workers: is each named, with worker and module?

Each of 14 faults is run in float32 and in bfloat16, next to a healthy twin. Faults in what the
workers should have in common are findings of the run. Faults that all workers share are found by
comparison with one process (`mothtrap diff ONE MANY --perturbed ROUNDING`).

Run: python bench/silent_faults.py [--only FAULT] [--dtypes fp32]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import mothtrap
from mothtrap.report.difference import RunDifference, difference

JOB = Path(__file__).parent / "silent" / "job.py"
WANTED = 12
TIMEOUT_S = 120.0


class Fault(NamedTuple):
    """A fault, and the expected report.

    `code` is the code of a finding; "" = a difference from one process. `words` must be in its
    message, or in the likely cause. `module` is the first named module; "" = any.
    """

    name: str
    code: str
    words: str
    module: str = ""
    workers: tuple[int, ...] = (1,)


FAULTS = (
    Fault("all_reduce_missing", "DST951", "differ from those on rank 0", "third"),
    Fault("weights_changed_on_one", "DST951", "differ from those on rank 0", "third"),
    Fault("rate_on_one", "DST955", "learning rate", "first.weight"),
    Fault("frozen_on_one", "DST955", "frozen on rank 1", "second.bias"),
    Fault("tied_on_one", "DST955", "separate on rank 1", "third.weight"),
    Fault("codes_of_one", "DST956", "the buffers of extra", "extra"),
    Fault("same_dropout", "DST957", "same dropout masks", "extra", (0, 1)),
    Fault("other_order_in_parts", "DST958", "hold parts of one model", "", (0, 1)),
    Fault("uneven_last_batch", "DST959", "averages over 2 rows"),
    Fault("rank_in_eval", "STR703", "evaluation mode", ""),
    Fault("zero_grad_missing", "GRD105", "not cleared"),
    Fault("loss_times_workers", "", "multiplied by the number of ranks"),
    Fault("gradient_divided_twice", "", "divided by the number of ranks"),
    Fault("clipped_before_averaging", "", "clips its own gradients before"),
)


class Outcome(NamedTuple):
    """Result of one fault and its twin in one element type.

    `alarm` is the finding about the healthy twin; "" = none.
    """

    fault: Fault
    dtype: str
    is_named: bool
    said: str
    alarm: str


def main(words: Sequence[str] | None = None) -> list[Outcome]:
    """Run the faults and their twins, print a line for each, and return the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="faults whose name begins so")
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
    arguments = parser.parse_args(words)
    outcomes = []
    for fault in FAULTS:
        for dtype in arguments.dtypes if fault.name.startswith(arguments.only) else ():
            outcomes.append(outcome := tried(fault, dtype))
            word = "named" if outcome.is_named else "MISSED"
            print(f"{word} {fault.name} {dtype}: {outcome.said}", flush=True)
            if outcome.alarm:
                print(f"FALSE ALARM on its twin: {outcome.alarm}", flush=True)
    for dtype in arguments.dtypes:
        own = [outcome for outcome in outcomes if outcome.dtype == dtype]
        named, alarms = sum(o.is_named for o in own), sum(bool(o.alarm) for o in own)
        print(f"{dtype}: {named} of {len(own)} named, {alarms} false alarms on {len(own)} twins")
    return outcomes


def tried(fault: Fault, dtype: str) -> Outcome:
    """Run a fault and its twin, also with one process if only the comparison shows it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        faulty, healthy = (train(folder, fault.name, twin, dtype, 2) for twin in TWINS)
        if fault.code:
            return Outcome(fault, dtype, *_found(fault, faulty), _alarm(healthy))
        one = train(folder, fault.name, "healthy", dtype, 1)
        rounding = train(folder, fault.name, "healthy", dtype, 1, "--perturb")
        there = difference(one, faulty, perturbed=rounding)
        twin = difference(one, healthy, perturbed=rounding)
        alarm = "" if twin.same else _said(twin)
        is_named = not there.same and fault.words in _said(there)
        return Outcome(fault, dtype, is_named, _said(there), alarm or _alarm(healthy))


TWINS = ("faulty", "healthy")


def train(
    folder: Path, fault: str, twin: str, dtype: str, workers: int, *more: str
) -> mothtrap.Run:
    """Run a job; return its run."""
    name = f"{twin}-{workers}{''.join(more)}"
    own = folder / f"{name}-store"
    own.mkdir()
    command = [sys.executable, "-m", "mothtrap", "run", "--runs-dir", str(folder), "--name", name]
    subprocess.run(
        [*command, "-q", *more, str(JOB), fault, twin, dtype, str(workers)],
        cwd=folder,
        env={**os.environ, "SILENT": str(own)},
        check=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    return mothtrap.open_run(folder / name)


def _found(fault: Fault, run: mothtrap.Run) -> tuple[bool, str]:
    found = next((f for f in run.findings if f.code == fault.code), None)
    if found is None:
        return False, "; ".join(f"{f.code} {f.message}" for f in run.findings) or "nothing"
    is_named = (
        fault.words in found.message
        and (not fault.module or found.layers[:1] == (fault.module,))
        and found.workers == fault.workers
    )
    return is_named, f"{found.code} at step {found.step}, worker {found.workers}: {found.message}"


def _alarm(run: mothtrap.Run) -> str:
    return "; ".join(f"{f.code} {f.message}" for f in run.findings)


def _said(found: RunDifference) -> str:
    if found.divergence is None or found.cause is None:
        return "no difference"
    return f"step {found.divergence.step}, {found.divergence.what}: {found.cause.sentence}"


if __name__ == "__main__":
    outcomes = main()
    named = {o.fault.name for o in outcomes if o.is_named}
    enough = len(named) >= min(WANTED, len({o.fault.name for o in outcomes}))
    sys.exit(not enough or any(o.alarm for o in outcomes))
