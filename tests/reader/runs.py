"""Small runs on disk for tests."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.store.records import record

from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.records import RawBlock, StepRecord
from mothtrap.core.runs import RunInfo
from mothtrap.core.steps import Mode, StepKey
from mothtrap.statistics.dtypes import name_of
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

DEAD_PID = 2**30  # above any pid that Linux assigns


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


def raw(*values: tuple[int, npt.NDArray[Any]]) -> RawBlock:
    """Return tensors as they were, each with its id."""
    parts = [np.ascontiguousarray(v).reshape(-1).view(np.uint8) for _, v in values]
    return RawBlock(
        tensor_R=np.array([number for number, _ in values], np.uint32),
        dtypes=tuple(name_of(v.dtype) for _, v in values),
        shapes=tuple(v.shape for _, v in values),
        offset_R=np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64),
        bytes_N=np.concatenate([*parts, np.empty(0, np.uint8)]),
    )


def key(step: int, mode: Mode = Mode.TRAIN, mode_step: int | None = None) -> StepKey:
    return StepKey(step=step, mode=mode, mode_step=step if mode_step is None else mode_step)


def evaluation(step: int, mode_step: int, **changes: object) -> StepRecord:
    """Return the record of one forward of an evaluation before train step `step`."""
    return record(step, key=key(step, Mode.EVAL, mode_step), optimizers=(), **changes)


def closing(step: int, *, exception: str | None = None, own_s: float = 1.0) -> StepRecord:
    """Return the record of a worker that closes after `step` steps."""
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
