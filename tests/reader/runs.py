"""Small runs on disk for tests."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from tests.store.records import record

from mothtrap.core.observations import WorkerEnded, WorkerStarted
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RunInfo
from mothtrap.core.steps import StepKey
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

DEAD_PID = 2**30  # above any pid that Linux gives


def info(**changes: object) -> RunInfo:
    values: dict[str, object] = {
        "id": "digits",
        "attempt": 1,
        "command": ("python", "train.py"),
        "cwd": "/tmp",
        "created_s": time.time(),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "python": "3.11",
        "mothtrap": "0.1",
    }
    return RunInfo(**(values | changes))  # type: ignore[arg-type]


def started(pid: int) -> WorkerStarted:
    return WorkerStarted(
        step=0, rank=0, world_size=1, pid=pid, host="h", framework="torch", versions={}
    )


def closing(step: int, *, exception: str | None = None, own_s: float = 1.0) -> StepRecord:
    """The record of a worker that closes after `step` steps."""
    end = WorkerEnded(step=step, steps=step, own_s=own_s, wall_s=50.0, exception=exception)
    return record(
        step, tensors=0, key=StepKey(step=step), optimizers=(), scalars=(), observations=(end,)
    )


def write_worker(attempt: Path, *items: StepRecord, seal: bool = True) -> WorkerLog:
    log = WorkerLog(layout.claim_worker(attempt)[1])
    for item in items:
        log.append([item])
    if seal:
        log.close()
    return log
