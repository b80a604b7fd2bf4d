"""Builder of rule windows from step records, as these arrive."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mothtrap.core.fact import Fact
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.samples import SamplesNamed, SamplesTaken
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.measured import DIGESTS
from mothtrap.core.needs import Need
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.window import EARLY_VALUES, Matrix, Series, Window
from mothtrap.reader.files.columns import Column
from mothtrap.reader.series.matrices import Group, groups

SCALAR_STEPS = 500
"""Minimum number of values of a scalar in a window: the default `steps` of a need."""
PAUSE_S = 600.0
"""Maximum time between two records that counts as training; chosen by hand: a longer pause means
that a notebook was paused or the job restarted.
"""
FIRST_OBSERVATIONS = 16
LATEST_OBSERVATIONS = 256
"""Number of observations of a type in a window, from the start and the end of the run; chosen by
hand: the first observations describe the program, the latest its state.
"""

_NO_TENSORS: npt.NDArray[np.uint32] = np.empty(0, np.uint32)


class WindowBuilder:
    """Collects the records of one worker, and builds windows of the latest records.

    A statistic has a row for each train step, or each forward pass of an evaluation, at which any
    tensor of the kind has a value for it.

    Args:
        needs: kinds and statistics to keep; roles narrow the activations.
        worker: rank, which is passed on to the windows.
        steps: minimum number of values of every scalar, and of train steps, to keep.
    """

    def __init__(
        self, needs: Sequence[Need], worker: int = 0, *, steps: int = SCALAR_STEPS
    ) -> None:
        self._worker = worker
        self._keep = max([steps, *(need.steps for need in needs)])
        self._groups: list[Group] = groups(needs)
        self._series: dict[tuple[str, str, Mode], _SeriesBuffer] = {}
        self._loss_series: dict[str, LossSeries] = {}
        self._observations: dict[type, _Latest] = {}
        self._seen = 0
        self._observed: tuple[Fact, ...] | None = ()
        self._steps = Column(self._keep, np.int64)
        self._skipped = Column(self._keep, np.bool_)
        self._total_steps = 0
        self._seen_s = self._trained_s = 0.0
        self._last_tensor_T: dict[Mode, npt.NDArray[np.uint32]] = {}

    def feed(self, record: StepRecord) -> None:
        """Add the next record."""
        if self._seen_s:
            self._trained_s += min(max(0.0, record.wall_s - self._seen_s), PAUSE_S)
        self._seen_s = record.wall_s
        for number, tensor in record.defined:
            for group in self._groups:
                group.define(number, tensor)
        for observation in record.observations:
            self._observe(observation)
        key = record.key
        for scalar in record.scalars:
            if scalar.name in DIGESTS:
                continue  # several per step, and not used by rules
            name = (scalar.name, scalar.of, key.mode)
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = _SeriesBuffer(self._keep)
            series.append(key.step, scalar.value)
        if is_step(key, record.optimizers, record.observations):
            self._steps.append(key.step)
            self._skipped.append(record.skipped)
            self._total_steps += 1
            self._feed_groups(record)
        elif key.mode is not Mode.TRAIN:
            self._feed_groups(record)

    def window(self, now_s: float) -> Window:
        """Return a window of the latest records; cheap, and not changed by later records.

        Args:
            now_s: Unix time.
        """
        return Window(
            now_s=now_s,
            total_steps=self._total_steps,
            steps_S=self._steps.view(),
            skipped_S=self._skipped.view(),
            series=tuple(self._show(name, buffer) for name, buffer in self._series.items()),
            matrices=tuple(self._matrices()),
            observations=self._show_observations(),
            worker=self._worker,
            seen_s=self._seen_s,
            trained_s=self._trained_s,
        )

    def rewind(self, step: int) -> None:
        """Drop the numbers from `step` on, because a restarted job repeats these steps."""
        rows = int(np.count_nonzero(self._steps.view() < step))
        self._total_steps -= len(self._steps.view()) - rows
        self._steps.forget(rows)
        self._skipped.forget(rows)
        for series in self._series.values():
            series.rewind(step)
        for group in self._groups:
            group.rewind(step)

    def _feed_groups(self, record: StepRecord) -> None:
        tensor_T, mode = record.tensor_T, record.key.mode
        if not len(tensor_T) or not self._groups:
            return
        # Most steps have the same tensors as the previous one, so their column positions are kept.
        same = np.array_equal(tensor_T, self._last_tensor_T.get(mode, _NO_TENSORS))
        if record.defined:
            same = False
            self._last_tensor_T.clear()
        self._last_tensor_T[mode] = tensor_T
        for group in self._groups:
            if group.choice.mode is not mode:
                continue
            if not same:
                group.select(tensor_T)
            group.append(record.key.step, record.skipped, record.summary_TF)

    def _observe(self, observation: Fact) -> None:
        if isinstance(observation, SamplesTaken | SamplesNamed):
            return  # one or more per step, and not used by rules
        if isinstance(observation, LossSeries):
            self._loss_series[observation.series] = observation
        kept = self._observations.get(type(observation))
        if kept is None:
            kept = self._observations[type(observation)] = _Latest()
        kept.append(self._seen, observation)
        self._seen += 1
        self._observed = None

    def _show_observations(self) -> tuple[Fact, ...]:
        if self._observed is None:
            rows = [row for kept in self._observations.values() for row in kept.rows()]
            rows.sort(key=lambda row: row[0])
            self._observed = tuple(observation for _, observation in rows)
        return self._observed

    def _show(self, name: tuple[str, str, Mode], buffer: _SeriesBuffer) -> Series:
        about = self._loss_series.get(name[1]) if name[0] == "loss" else None
        return Series(
            name=name[0],
            of=name[1],
            mode=name[2],
            steps_S=buffer.steps.view(),
            values_S=buffer.values.view(),
            location=about.location if about else None,
            optimizers=about.optimizers if about else (),
            total=buffer.total,
            first=buffer.early[0] if buffer.early else math.nan,
            early_S=np.array(buffer.early),
        )

    def _matrices(self) -> list[Matrix]:
        return [matrix for group in self._groups for matrix in group.show()]


def is_step(key: StepKey, optimizers: Sequence[str], observations: Sequence[Fact]) -> bool:
    """Return whether a record belongs to a train step, not to an evaluation or a worker's end.

    The record that contains only `WorkerEnded` has the step after the last one.
    """
    closing = not optimizers and any(isinstance(o, WorkerEnded) for o in observations)
    return key.mode is Mode.TRAIN and not closing


class _SeriesBuffer:
    __slots__ = ("early", "steps", "total", "values")

    def __init__(self, keep: int) -> None:
        self.steps = Column(keep, np.int64)
        self.values = Column(keep, np.float64)
        self.total = 0
        self.early: list[float] = []

    def append(self, step: int, value: float) -> None:
        if self.total < EARLY_VALUES:
            self.early.append(value)
        self.steps.append(step)
        self.values.append(value)
        self.total += 1

    def rewind(self, step: int) -> None:
        before = int(np.count_nonzero(self.steps.view() < step))
        self.total -= len(self.steps.view()) - before
        del self.early[self.total :]
        self.steps.forget(before)
        self.values.forget(before)


class _Latest:
    """The first and the latest observations of a type, with their positions in the run."""

    __slots__ = ("_first", "_latest")

    def __init__(self) -> None:
        self._first: list[tuple[int, Fact]] = []
        self._latest: deque[tuple[int, Fact]] = deque(maxlen=LATEST_OBSERVATIONS)

    def append(self, place: int, observation: Fact) -> None:
        if len(self._first) < FIRST_OBSERVATIONS:
            self._first.append((place, observation))
        else:
            self._latest.append((place, observation))

    def rows(self) -> list[tuple[int, Fact]]:
        return [*self._first, *self._latest]
