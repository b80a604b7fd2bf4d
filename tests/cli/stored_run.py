"""A small run on disk, written through the store, without any framework."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import numpy as np

from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.runs import RuleStatus, RunEnd, RunInfo, RunKind
from mothtrap.core.steps import Mode, StepKey
from mothtrap.statistics.summary import WIDTH
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog
from mothtrap.store.worker_log import WorkerLog


def store_run(
    path: Path,
    *,
    findings: tuple[Finding, ...] = (),
    steps: int = 12,
    created_s: float = 0.0,
    first_loss: float = 1.0,
    failures: tuple[ToolError, ...] = (),
    kind: RunKind = RunKind.TRAIN,
    facts: tuple[Fact, ...] = (),
) -> None:
    """Write a finished run with one worker and one rule that found nothing."""
    info = RunInfo(
        id=path.name,
        attempt=1,
        command=("python", "train.py"),
        cwd=str(path.parent),
        created_s=created_s or time.time(),
        pid=os.getpid(),
        host=socket.gethostname(),
        python="3.11",
        mothtrap="0",
        kind=kind,
    )
    attempt = layout.create_run(path, info)
    _, folder = layout.claim_worker(attempt)
    log = WorkerLog(folder)
    log.append(
        [*(_step(step, first_loss) for step in range(steps)), _ending(steps, (*failures, *facts))]
    )
    log.close()
    monitor = FindingLog(layout.monitor_folder(attempt, 0))
    status = RuleStatus(code="NUM001", name="nonfinite_loss", state=RuleState.OK)
    monitor.append(findings, (status,))
    monitor.close()
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=time.time()))


def _step(step: int, first_loss: float) -> StepRecord:
    return StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=float(step),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        scalars=(Scalar(name="loss", of="", value=first_loss / (step + 1)),),
    )


def _ending(steps: int, failures: tuple[Fact, ...]) -> StepRecord:
    """The record with the last facts of a worker, which is not a training step."""
    return StepRecord(
        key=StepKey(step=steps, mode=Mode.PREDICT),
        wall_s=float(steps),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        observations=(
            *failures,
            WorkerEnded(step=steps, steps=steps, own_s=0.01, wall_s=1.0),
        ),
    )
