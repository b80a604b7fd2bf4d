"""The valid records of a run; if a later attempt repeated steps, its records are valid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.core.records import StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.exports._choice import Choice
from mothtrap.reader.files.parts import Part
from mothtrap.reader.run import Run
from mothtrap.reader.series.matrices import captured
from mothtrap.statistics.dtypes import array_of
from mothtrap.statistics.summary import STATISTICS, WIDTH, derive
from mothtrap.store.progress import progress, size_of
from mothtrap.store.raw_reading import RawIndex, RawRow, read_bytes
from mothtrap.store.worker_reading import EventReader, ReadState

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One record of one worker, with the description of its tensors by id."""

    attempt: int
    record: StepRecord
    tensors: Mapping[int, TensorInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A tensor whose values were stored completely; `values` reads them."""

    attempt: int
    wall_s: float
    tensor: TensorInfo
    row: RawRow
    folder: Path

    def data(self) -> bytes:
        """Return the bytes in C order, little-endian. Raises DamagedDataError."""
        return bytes(read_bytes(self.folder, self.row))

    def values(self) -> npt.NDArray[np.generic]:
        """Return the captured values. Raises DamagedDataError."""
        return array_of(self.data(), self.row.dtype).reshape(self.row.shape)


def records(run: Run, worker: int, choice: Choice, lost: dict[str, None]) -> Iterator[Recorded]:
    """Yield the chosen records of one worker, in order.

    Args:
        run: the run.
        worker: rank.
        choice: steps to read.
        lost: receives a sentence, as a key, for each part that cannot be read.
    """
    for part in run.parts(worker):
        tensors: dict[int, TensorInfo] = {}
        state = ReadState(part.view.folder)
        for record in _shown("numbers", part, state.poll(), partial(_bytes_of_numbers, part)):
            tensors |= dict(record.defined)
            if _counts(part, record.key, choice):
                yield Recorded(attempt=part.attempt, record=record, tensors=tensors)
        damage = state.damage(ended=run.state != "running")
        lost |= dict.fromkeys(f"{part.attempt}/{text}" for text in damage)


def wholes(run: Run, worker: int, choice: Choice, lost: dict[str, None]) -> Iterator[Whole]:
    """Yield the chosen tensors of one worker whose values were stored, in order of steps.

    Takes the same arguments as `records`. Damage to a tensor is reported when it is read.
    """
    for part in run.parts(worker):
        tensors: dict[int, TensorInfo] = {}
        folder = part.view.folder
        index, reader = RawIndex(folder), EventReader(folder)
        for events in _shown("tensors", part, reader.poll(), partial(_bytes_of_tensors, part)):
            tensors |= dict(events.defined)
            rows = index.take(events)
            if not _counts(part, events.key, choice):
                continue
            for row in rows:
                tensor = tensors.get(row.tensor)
                if tensor is not None and choice.has_tensor(tensor):
                    yield Whole(
                        attempt=part.attempt,
                        wall_s=events.commit.wall_s,
                        tensor=tensor,
                        row=row,
                        folder=folder,
                    )
        for source in (reader, index):
            damage = source.damage(ended=run.state != "running")
            lost |= dict.fromkeys(f"{part.attempt}/{text}" for text in damage)


def statistics(recorded: Recorded, choice: Choice) -> Iterator[tuple[TensorInfo, dict[str, float]]]:
    """Yield the captured statistics of the chosen tensors of a record.

    A value is NaN if a tensor had no finite element. Statistics that were not captured are missing.
    """
    record = recorded.record
    if record.summary_TF.shape[1] != WIDTH:  # from another version, so no column can be trusted
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


def _shown(what: str, part: Part, items: Iterable[T], size_bytes: Callable[[], int]) -> Iterator[T]:
    """Yield the parts of each record; on a terminal, show the progress of a long export."""
    told_of = f"exporting {what} of {part.view.folder.name}"
    with progress(told_of, size_bytes, parts=len(part.view.commits)) as told:
        for done, item in enumerate(items, 1):
            yield item
            told(done)


def _bytes_of_numbers(part: Part) -> int:
    return sum(size_of(part.view.folder, kind) for kind in ("events", "stats", "scalars"))


def _bytes_of_tensors(part: Part) -> int:
    return sum(int(piece.column("size").sum()) for piece in part.view.raw())


def _counts(part: Part, key: StepKey, choice: Choice) -> bool:
    return part.has(key.step, key.mode) and choice.has_step(key.step)
