"""The records of a run that hold: where a later attempt did steps again, its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mothtrap.core.records import StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.exports._choice import Choice
from mothtrap.reader.matrices import captured
from mothtrap.reader.run import Run
from mothtrap.reader.windows import is_step
from mothtrap.statistics.dtypes import dtype_of
from mothtrap.statistics.summary import STATISTICS, WIDTH, derive
from mothtrap.store import layout
from mothtrap.store.raw_reading import RawIndex, RawRow, read_bytes
from mothtrap.store.worker_reading import EventReader, ReadState


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One record of one worker, with what its tensor ids mean."""

    attempt: int
    record: StepRecord
    tensors: Mapping[int, TensorInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """One tensor that was kept whole; `values` reads it."""

    attempt: int
    wall_s: float
    tensor: TensorInfo
    row: RawRow
    folder: Path

    def data(self) -> bytes:
        """Its bytes, little-endian, in C order. Raises DamagedDataError."""
        return bytes(read_bytes(self.folder, self.row))

    def values(self) -> npt.NDArray[np.generic]:
        """The tensor as it was captured. Raises DamagedDataError."""
        flat = np.frombuffer(self.data(), dtype_of(self.row.dtype))
        return flat.reshape(self.row.shape)


def records(run: Run, worker: int, choice: Choice, lost: dict[str, None]) -> Iterator[Recorded]:
    """Yield the records of one worker whose step is chosen, in order.

    Args:
        run: whose they are.
        worker: rank.
        choice: of steps.
        lost: gets a sentence as key for each part that could not be read.
    """
    for attempt, folder, stop in _folders(run, worker):
        tensors: dict[int, TensorInfo] = {}
        state = ReadState(folder)
        for record in state.poll():
            tensors |= dict(record.defined)
            if record.key.step < stop and choice.has_step(record.key.step):
                yield Recorded(attempt=attempt, record=record, tensors=tensors)
        damage = state.damage(ended=run.state != "running")
        lost |= dict.fromkeys(f"{attempt}/{text}" for text in damage)


def wholes(run: Run, worker: int, choice: Choice, lost: dict[str, None]) -> Iterator[Whole]:
    """Yield the chosen tensors of one worker that were kept whole, in order of steps.

    Arguments as of `records`; what of a tensor is lost, reading it tells.
    """
    for attempt, folder, stop in _folders(run, worker):
        tensors: dict[int, TensorInfo] = {}
        index, reader = RawIndex(folder), EventReader(folder)
        for events in reader.poll():
            tensors |= dict(events.defined)
            rows = index.take(events)
            if events.key.step >= stop or not choice.has_step(events.key.step):
                continue
            for row in rows:
                tensor = tensors.get(row.tensor)
                if tensor is not None and choice.has_tensor(tensor):
                    yield Whole(
                        attempt=attempt,
                        wall_s=events.commit.wall_s,
                        tensor=tensor,
                        row=row,
                        folder=folder,
                    )
        for part in (reader, index):
            damage = part.damage(ended=run.state != "running")
            lost |= dict.fromkeys(f"{attempt}/{text}" for text in damage)


def statistics(recorded: Recorded, choice: Choice) -> Iterator[tuple[TensorInfo, dict[str, float]]]:
    """Yield the captured statistics of the chosen tensors of a record.

    A value is NaN where a tensor had no finite element; what was not captured is absent.
    """
    record = recorded.record
    if record.summary_TF.shape[1] != WIDTH:  # of another version: no column can be trusted
        return
    found = {}
    for name in STATISTICS:
        value_T = derive(record.summary_TF, name)
        present_T = captured(record.summary_TF, name, value_T)
        found[name] = list(zip(value_T.tolist(), present_T.tolist(), strict=True))
    for row, number in enumerate(record.tensor_T.tolist()):
        tensor = recorded.tensors.get(number)
        if tensor is not None and choice.has_tensor(tensor):
            rows = {name: values[row] for name, values in found.items()}
            yield tensor, {name: value for name, (value, present) in rows.items() if present}


def _folders(run: Run, worker: int) -> list[tuple[int, Path, float]]:
    """Attempt and folder of a worker, and the step from which later attempts did it again."""
    found = []
    for attempt in layout.attempts(run.path):
        folder = layout.worker_folder(layout.attempt_folder(run.path, attempt), worker)
        if folder.is_dir():
            found.append((attempt, folder))
    stops = []
    stop = math.inf
    for attempt, folder in reversed(found):
        stops.append((attempt, folder, stop))
        stop = min(stop, _first_step(folder))
    return stops[::-1]


def _first_step(folder: Path) -> float:
    for events in EventReader(folder).poll():
        if is_step(events.key, events.commit.optimizers, events.observations):
            return events.key.step
    return math.inf
