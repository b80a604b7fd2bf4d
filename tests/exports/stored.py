"""A run to export: two workers, a restart, evaluations, NaN, tensors kept whole."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.captures import Unwatched
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.packed_floats import packed
from mothtrap.core.records import RawBlock, Scalar, StepRecord
from mothtrap.core.runs import RuleStatus, RunEnd, RunInfo
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run, open_run
from mothtrap.statistics.dtypes import name_of
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog
from mothtrap.store.worker_log import WorkerLog

Array = npt.NDArray[np.generic]
START_S = 1_700_000_000.0
WEIGHT = TensorInfo(kind="weight", name="head.weight", module="head", dtype="bfloat16", shape=(3,))
GRADIENT = TensorInfo(kind="gradient", name="head.weight", module="head", shape=(2, 2))
DEFINED = ((0, WEIGHT), (1, GRADIENT))
FINDING = Finding(
    code="NUM001",
    name="nonfinite_loss",
    severity=Severity.ERROR,
    step=3,
    detected_step=4,
    message="the loss is NaN",
    layers=("head",),
    evidence={"value": float("nan")},
    fingerprint="f",
)


def weight(step: int) -> Array:
    """Return the weight at a step, in bfloat16."""
    return np.array([step, step / 3, -step], np.float32).astype(ml_dtypes.bfloat16)


def gradient(step: int) -> Array:
    """Return the gradient at a step, with a NaN and an infinity from step 3 on."""
    value = np.arange(4, dtype=np.float32).reshape(2, 2) + step
    if step >= 3:
        value[0] = np.nan, np.inf
    return value


def loss(step: int) -> float:
    """Return the loss of a step: NaN from step 3 on."""
    return float("nan") if step >= 3 else 1.0 / (step + 1)


def block(*values: tuple[int, Array]) -> RawBlock:
    """Return tensors to be kept whole, by id."""
    parts = [np.ascontiguousarray(value).reshape(-1).view(np.uint8) for _, value in values]
    return RawBlock(
        tensor_R=np.array([number for number, _ in values], np.uint32),
        dtypes=tuple(name_of(value.dtype) for _, value in values),
        shapes=tuple(value.shape for _, value in values),
        offset_R=np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64),
        bytes_N=np.concatenate(parts),
    )


def train_step(step: int, *, first: bool = False, wall_s: float | None = None) -> StepRecord:
    """Return a train step of half a second; in step 4 the gradient has no finite element."""
    row = np.full(WIDTH, np.nan)
    row[[COLUMN["count"], COLUMN["nan"], COLUMN["inf"]]] = 4.0, 4.0 * (step == 4), 0.0
    row[COLUMN["l2"]] = 10.0 + step
    row[COLUMN["max"]] = np.nan if step == 4 else float(step)
    series = LossSeries(step=step, series="main", optimizers=("adam",))
    return StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=START_S + (step + 1) / 2 if wall_s is None else wall_s,
        optimizers=("adam",),
        defined=DEFINED if first else (),
        tensor_T=np.array([1], np.uint32),
        summary_TF=row[None],
        scalars=(
            Scalar("loss", "main", loss(step)),
            Scalar("micro_batches", "", 2.0),
            Scalar("step_s", "", 0.5),
            Scalar("own_s", "", 0.004),
        ),
        observations=(series,) if first else (),
        raw=(block((0, weight(step)), (1, gradient(step))),) if step % 2 == 1 else (),
    )


def evaluation(step: int, mode_step: int) -> StepRecord:
    """Return a forward of an evaluation at a step."""
    return StepRecord(
        key=StepKey(step=step, mode=Mode.EVAL, mode_step=mode_step),
        wall_s=START_S + step / 2,
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        scalars=(Scalar("loss", "main", 0.25),),
    )


def ending(step: int) -> StepRecord:
    """Return the record of a worker that closes."""
    return StepRecord(
        key=StepKey(step=step),
        wall_s=START_S + step / 2,
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        observations=(WorkerEnded(step=step, steps=step, own_s=0.01, wall_s=1.0),),
    )


def info(name: str, attempt: int) -> RunInfo:
    """Return the start information of an attempt."""
    return RunInfo(
        id=name,
        attempt=attempt,
        command=("python", "train.py"),
        cwd="/tmp",
        created_s=START_S,
        pid=os.getpid(),
        host=socket.gethostname(),
        python="3.11",
        mothtrap="0",
    )


def store(path: Path) -> Run:
    """Store steps 0 to 3 of two workers; both resume at step 2, worker 0 to 5 and worker 1 to 3."""
    first = layout.create_run(path, info(path.name, 1))
    for _ in range(2):
        log = WorkerLog(layout.claim_worker(first)[1])
        log.append([train_step(step, first=step == 0) for step in range(4)])
        log.close()
    second = layout.create_attempt(path, info(path.name, 2))
    log = WorkerLog(layout.claim_worker(second)[1])
    log.append([train_step(step, first=step == 2) for step in range(2, 6)])
    log.append([evaluation(6, 0), evaluation(6, 1), ending(6)])
    log.close()
    log = WorkerLog(layout.claim_worker(second)[1])
    log.append([*(train_step(step, first=step == 2) for step in range(2, 4)), ending(4)])
    log.close()
    monitor = FindingLog(layout.monitor_folder(second, 0))
    status = RuleStatus(code="NUM001", name="nonfinite_loss", state=RuleState.ERROR)
    monitor.append((FINDING,), (status,))
    monitor.close()
    for attempt in (first, second):
        layout.write_end(attempt, RunEnd(exit_code=0, ended_s=START_S + 3))
    return open_run(path)


def sampled(folder: Path) -> Run:
    """Store a run of five steps; 1 to 3 were not watched, and the loss of step 2 is unknown."""
    attempt = layout.create_run(folder / "sampled", info("sampled", 1))
    log = WorkerLog(layout.claim_worker(attempt)[1])
    gap = Unwatched(
        step=1,
        last_step=3,
        seconds=0.3,
        losses=packed([0.75, float("nan"), 0.25]),
        loss_of="main",
        rates=packed([0.5, 0.5, 0.5]),
        rate_of="SGD",
    )
    known = (Scalar("loss", "main", 1.0), Scalar("lr", "SGD", 0.5))
    late = (Scalar("loss", "main", 0.125),)
    log.append(
        [
            replace(train_step(0, first=True), scalars=known),
            replace(train_step(4), scalars=late, observations=(gap,)),
        ]
    )
    log.close()
    return open_run(folder / "sampled")
