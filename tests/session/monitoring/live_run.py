"""A run that is written step by step, as a job with `--no-rules` writes it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import numpy as np

from mothtrap.core.config import Config, plain
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.runs import RunEnd, RunInfo
from mothtrap.core.steps import Mode, StepKey
from mothtrap.statistics.summary import WIDTH
from mothtrap.store import layout
from mothtrap.store.upload_queue import UploadQueue
from mothtrap.store.worker_log import WorkerLog

RULES = '''
import mothtrap

@mothtrap.rule("ZZZ901", severity="error")
def high_loss(window: mothtrap.Window, *, limit: float = 10.0):
    """A loss is high."""
    for series in window.scalars("loss"):
        high_S = series.values_S > limit
        if high_S.any():
            last = float(series.values_S[-1])
            yield mothtrap.Found(
                step=int(series.steps_S[high_S][0]),
                count=int(high_S.sum()),
                severity="error" if (series.values_S > 100 * limit).any() else "warning",
                message="too high",
            )

@mothtrap.rule("ZZZ902", severity="warning")
def low_loss(window: mothtrap.Window):
    """A loss is low."""
    for series in window.scalars("loss"):
        low_S = series.values_S < 0.1
        if low_S.any():
            yield mothtrap.Found(step=int(series.steps_S[low_S][0]), message="too low")
'''


class LiveRun:
    """A run of one worker, whose process is this one."""

    def __init__(self, path: Path, evaluate: str = "monitor") -> None:
        info = RunInfo(
            id=path.name,
            attempt=1,
            command=("python", "train.py"),
            cwd=str(path.parent),
            created_s=time.time(),
            pid=os.getpid(),
            host=socket.gethostname(),
            python="3.11",
            mothtrap="0",
            config=plain(Config(evaluate=evaluate)),  # type: ignore[arg-type]
        )
        self.path = path
        self.attempt = layout.create_run(path, info)
        _, folder = layout.claim_worker(self.attempt)
        self._log = WorkerLog(folder)
        self.steps = 0

    def train(self, *losses: float) -> None:
        """Append a step for each loss."""
        for loss in losses:
            self._log.append([_record(self.steps, Mode.TRAIN, loss)])
            self.steps += 1

    def send(self, url: str) -> None:
        """Send all steps to an object store."""
        self._log.close()
        UploadQueue(self.path, url).send(final=(self.attempt / "end.json").exists())

    def end(self) -> None:
        """End the job normally."""
        ended = WorkerEnded(step=self.steps, steps=self.steps, own_s=0.01, wall_s=1.0)
        self._log.append([_record(self.steps, Mode.PREDICT, 0.0, ended)])
        self._log.close()
        layout.write_end(self.attempt, RunEnd(exit_code=0, ended_s=time.time()))


def _record(step: int, mode: Mode, loss: float, *facts: WorkerEnded) -> StepRecord:
    is_train = mode is Mode.TRAIN
    return StepRecord(
        key=StepKey(step=step, mode=mode, mode_step=step if is_train else 0),
        wall_s=time.time(),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        scalars=(Scalar(name="loss", of="", value=loss),) * is_train,
        observations=facts,
    )
