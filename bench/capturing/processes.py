"""Starts the processes of each line, in the environment that they need."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.capturing import figures
from bench.capturing.jobs import Job
from bench.capturing.settings import PEERS

ROOT = Path(__file__).resolve().parents[2]
FIGURES = {"pairs": figures.of_pairs, "p99": figures.of_p99, "long": figures.of_memory}
DISTRIBUTIONS = {"torch_audit": "torch-audit"}
"""Names under which peers are installed, where they differ."""
LONGEST = 4.0
"""Times `most_s` until a process is given up: its first steps and its end take time, too."""
VERSION = "from importlib.metadata import version; import sys; print(version(sys.argv[1]))"


def line(job: Job, peers: Path, processes: int = 1) -> dict[str, Any]:
    """Do a job; return its line (see `table.Line`). Errors are reported in the line.

    Args:
        job: pairs are the pairs of all processes together.
        peers: folder of their environments.
        processes: that share the pairs, one after another; a `long` job is for one.
    """
    told = {
        "kind": job.kind,
        "model": job.model,
        "setting": job.setting,
        "by": job.by,
        "machine": machine(job.threads),
        "version": "",
    }
    if job.kind == "long":
        told["steps"] = job.steps
    interpreter = Path(sys.executable)
    if job.by in PEERS:
        interpreter = peers / job.by / "bin" / "python"
        if not interpreter.exists():
            return {**told, "failed": f"not installed in {peers} (`make peers`)"}
        told["version"] = _version(interpreter, DISTRIBUTIONS.get(job.by, job.by))
    found: list[dict[str, Any]] = []
    processes = 1 if job.kind == "long" else processes
    share = replace(job, pairs=-(-job.pairs // processes))
    for _ in range(processes):
        one = _measured(share, interpreter)
        if "measured" not in one:
            return {**told, **one}
        found.append(one["measured"])
    whole = found[0] if job.kind == "long" else figures.joined(found)
    return {**told, **FIGURES[job.kind](whole), "note": whole["note"]}


def _measured(job: Job, interpreter: Path) -> dict[str, Any]:
    """Return one process's `measured` result, or `cannot` or `failed` with the reason."""
    what = ["-m", "bench.capturing.ours"]
    if job.by in PEERS:
        what = [str(ROOT / "bench" / "peers" / f"{job.by}_capture.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="mothtrap-bench-") as folder:
        placed = replace(job, folder=str(Path(folder) / "run"))
        try:
            done = subprocess.run(
                [str(interpreter), *what, placed.text()],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=LONGEST * job.most_s,
            )
        except subprocess.TimeoutExpired as err:
            return {"failed": f"not done after {err.timeout:.0f} s"}
    said = done.stderr.strip().splitlines()
    if done.returncode:
        return {"failed": said[-1] if said else f"exit code {done.returncode}"}
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return found if "cannot" in found else {"measured": found}


def machine(threads: int) -> str:
    """The machine and the versions that matter, in words."""
    import numpy
    import torch

    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return (
        f"{platform.machine()}, {_processor()}, {os.cpu_count()} CPUs, {threads} threads, "
        f"Linux {'.'.join(platform.release().split('.')[:2])}, Python {platform.python_version()}, "
        f"torch {torch.__version__}, numpy {numpy.__version__}, mothtrap {commit or 'unknown'} "
        + compiled_parts()
    )


def compiled_parts() -> str:
    """Report whether the compiled parts are built; a bare checkout has none, and is slower."""
    from mothtrap.adapters.torch.forward.fast_path import compiled
    from mothtrap.statistics import built

    parts = {"_passage": compiled, "_arrays": built.arrays}
    missing = [name for name, part in parts.items() if part is None]
    return f"WITHOUT its compiled {' and '.join(missing)}" if missing else "with its compiled parts"


def _processor() -> str:
    for told in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = told.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown processor"


def _version(interpreter: Path, distribution: str) -> str:
    command = [str(interpreter), "-c", VERSION, distribution]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
