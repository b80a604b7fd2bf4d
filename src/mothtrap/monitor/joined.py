"""Windows in which a rule gets the data of all workers of a job."""

from __future__ import annotations

import dataclasses

import numpy as np

from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.window import Window
from mothtrap.reader.series.windows import WindowBuilder
from mothtrap.statistics.summary import WIDTH


def stall_record(state: WorkerStalled) -> StepRecord:
    """Return a record with the state of a worker that is not stepping.

    Its time is the time of the worker's last step.
    """
    return StepRecord(
        key=StepKey(step=state.step, mode=Mode.PREDICT),
        wall_s=state.at_s - state.waited_s,
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        observations=(state,),
    )


class JoinedWindows:
    """Builds the window of the lowest rank, with the other workers' windows as its peers."""

    def __init__(self) -> None:
        self._builders: dict[int, WindowBuilder] = {}

    @property
    def workers(self) -> tuple[int, ...]:
        """Ranks with at least one record, ascending."""
        return tuple(sorted(self._builders))

    def add(self, worker: int, record: StepRecord) -> None:
        """Add the next record of a worker."""
        builder = self._builders.get(worker)
        if builder is None:
            builder = self._builders[worker] = WindowBuilder((), worker)
        builder.feed(record)

    def feed(self, record: StepRecord) -> None:
        """Do nothing, because `add` already received the record together with its worker."""

    def window(self, now_s: float) -> Window:
        """Return the latest records of all workers; an empty window if there are none."""
        if not self._builders:
            return WindowBuilder(()).window(now_s)
        first, *others = (self._builders[worker].window(now_s) for worker in self.workers)
        return dataclasses.replace(first, peers=tuple(others))
