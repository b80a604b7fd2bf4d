"""What capture costs: step times with and without it, paired in one process.

Plain and watched steps of the same model alternate, first one then the other in turn; the
ratio is taken inside each pair, and the median over the pairs is reported with its 95 %
bootstrap interval. "Plain" has all hooks taken out. Either side begins with steps that are not
measured, so that a measured watched step carries what the background threads do for the ones
before it, as in any longer run; after it, the queues run dry outside the measurement.

`memory` is what the process takes at most beyond what training alone takes; the queue of what
is on its way to the disk is bounded by `queue_mb`, 64 MB of 2^20 bytes unless set.

Run: python bench/capture.py [--model gpt|mlp|resnet] [--setting NAME] [--pairs N]
    [--smdebug PYTHON]
`--smdebug` is an interpreter in whose environment `bench/peers/smdebug.txt` and torch are
installed: it does the settings that it can beside us, each in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.memory import Growth  # noqa: E402

SETTINGS: dict[str, dict[str, Any]] = {
    "hooks only": {"capture": "off"},
    "guard and ring": {"capture": "off"},
    "default": {},
    "all gradients and weights": {
        "overhead": 0.0,
        "collections": {"all": {"tensors": ["gradient:*", "weight:*", "bias:*"]}},
    },
    "everything": {"overhead": 0.0, "capture": "everything"},
    "statistics of activations": {
        "overhead": 0.0,
        "collections": {"all": {"tensors": ["activation:*"], "statistics": ["all"]}},
    },
    "raw gradients and weights": {
        "overhead": 0.0,
        "on_full": "block",
        "collections": {"all": {"tensors": ["gradient:*", "weight:*", "bias:*"], "raw": True}},
    },
}
WITH_RING = "guard and ring"
"""Nothing is captured, but the guard looks at every step and what it is fed with is kept."""
OF_PEERS = ("statistics of activations", "raw gradients and weights")
STEPS = {"gpt": 1, "mlp": 200, "resnet": 1}
"""Steps on either side of a pair: a step of the perceptron alone is shorter than its jitter."""
WARM_UP_STEPS = {"gpt": 80, "mlp": 800, "resnet": 80}
SETTLE_S = 0.12  # two polls of the queues
BOOTSTRAPS = 2000


def measure(model: str, setting: str, pairs: int) -> dict[str, Any]:
    """Measure one setting in this process; `_s` are seconds a step, one number for each pair."""
    import msgspec
    import torch

    from mothtrap.adapters import torch as adapter
    from mothtrap.core.config import Config
    from mothtrap.session import launch
    from mothtrap.session.worker import Worker

    torch.set_num_threads(2)
    folder = tempfile.TemporaryDirectory()
    config = msgspec.convert({**SETTINGS[setting], "runs_dir": folder.name}, Config)
    worker = Worker(
        lambda: launch.create("bench", ["bench"], config, numbered=True), config, adapter, print
    )
    watched = msgspec.structs.replace(config, capture="default") if setting == WITH_RING else config
    witness = adapter.attach_process(worker.recorder, watched)
    worker.holds(witness)
    _, _, step = importlib.import_module(f"bench.models.{model}").training()
    with unobserved():
        run(step, 5)
    growth = Growth()
    run(step, WARM_UP_STEPS[model])
    time.sleep(SETTLE_S)
    recorder = worker.recorder
    steps, own_s = recorder.steps, recorder.own_s
    plain_s, watched_s = [], []
    for pair in range(pairs):
        for side in ("plain", "watched") if pair % 2 else ("watched", "plain"):
            if side == "plain":
                with unobserved():
                    run(step, STEPS[model])
                    plain_s.append(run(step, STEPS[model]))
            else:
                run(step, STEPS[model])
                watched_s.append(run(step, STEPS[model]))
                time.sleep(SETTLE_S)
    steps, own_s = recorder.steps - steps, recorder.own_s - own_s
    worker.close()
    written = sum(f.stat().st_size for f in Path(folder.name).rglob("*.arrow"))
    return {
        "plain_s": plain_s,
        "watched_s": watched_s,
        "own_ms": 1e3 * own_s / steps,
        "kB_per_step": written / 1e3 / max(1, recorder.steps),
        "grown_mb": growth.peak_mb(),
    }


def interval(values: list[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median (percentile method)."""
    draw = random.Random(0)
    medians = sorted(
        statistics.median(draw.choices(values, k=len(values))) for _ in range(BOOTSTRAPS)
    )
    return medians[BOOTSTRAPS // 40], medians[-BOOTSTRAPS // 40]


def run(step: Callable[[], None], steps: int) -> float:
    """Make steps; return seconds a step."""
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - began) / steps


@contextmanager
def unobserved() -> Iterator[None]:
    """Take every hook out for a while."""
    import torch
    from torch import nn
    from torch.optim import Optimizer, optimizer

    tables = (
        optimizer._global_optimizer_pre_hooks,
        optimizer._global_optimizer_post_hooks,
    )
    kept = [dict(table) for table in tables]
    functions: list[tuple[Any, str]] = [
        (nn.Module, "_call_impl"),
        (nn.Module, "__init__"),
        (torch.autograd, "backward"),
        (torch.autograd, "grad"),
        (Optimizer, "zero_grad"),
    ]
    watched = [getattr(owner, name) for owner, name in functions]
    for table in tables:
        table.clear()
    for owner, name in functions:
        setattr(owner, name, getattr(owner, name).__wrapped__)
    try:
        yield
    finally:
        for table, entries in zip(tables, kept, strict=True):
            table.update(entries)
        for (owner, name), function in zip(functions, watched, strict=True):
            setattr(owner, name, function)


def main() -> None:
    """Measure every setting, each in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(STEPS), action="append")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--setting", choices=list(SETTINGS), action="append")
    parser.add_argument("--smdebug", metavar="PYTHON")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measured = measure(arguments.model[0], arguments.setting[0], arguments.pairs)
        print(json.dumps(measured))
        return
    import numpy
    import torch

    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
        f"torch {torch.__version__}, numpy {numpy.__version__}; {arguments.pairs} pairs; "
        "ratio = median of watched / plain [95 % interval]\n"
    )
    print("| model | setting | plain ms | watched ms | ratio | own ms | kB/step | memory MB |")
    print("|---|---|---|---|---|---|---|---|")
    for model in arguments.model or ["gpt", "mlp"]:
        for setting in arguments.setting or SETTINGS:
            words = [__file__, "--model", model, "--setting", setting, "--here"]
            command = [sys.executable, *words, "--pairs", str(arguments.pairs)]
            print(f"| {model} | {setting} | {row(command)} |", flush=True)
            if arguments.smdebug and setting in OF_PEERS:
                script = ROOT / "bench" / "peers" / "smdebug_capture.py"
                command = [arguments.smdebug, script, model, setting, str(arguments.pairs)]
                print(f"| {model} | {setting}: smdebug | {row(command)} |", flush=True)


def row(command: Sequence[str | Path]) -> str:
    """Measure in a fresh process; return the cells of a line of the table."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(word) for word in command], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1]}"
    m = json.loads(done.stdout.strip().splitlines()[-1])
    ratios = [w / p for w, p in zip(m["watched_s"], m["plain_s"], strict=True)]
    low, high = interval(ratios)
    own = f"{m['own_ms']:.2f} | {m['kB_per_step']:.1f}" if "own_ms" in m else "- | -"
    return (
        f"{1e3 * statistics.median(m['plain_s']):.2f} | "
        f"{1e3 * statistics.median(m['watched_s']):.2f} "
        f"| {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] "
        f"| {own} | {m['grown_mb']:.0f}"
    )


if __name__ == "__main__":
    main()
