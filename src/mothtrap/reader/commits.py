"""The records of one worker that are written whole: when they were, and what they hold.

Shape suffix: C = committed records, in the order of writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import UnknownNameError, nearest
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.window import Bools, Floats, Ints
from mothtrap.reader.columns import Column
from mothtrap.store.worker_reading import StepEvents

MODES = tuple(Mode)
MODE_CODE = {mode: code for code, mode in enumerate(MODES)}
ModeName = Mode | Literal["train", "eval", "predict"]
ENDLESS = 1 << 40
"""More rows than any run has: nothing is forgotten."""


def mode_code(mode: ModeName) -> int:
    """Return the index of a mode in `MODES`.

    Raises:
        UnknownNameError: there is no such mode; names the nearest.
    """
    if mode not in MODE_CODE:
        known = [each.value for each in MODES]
        raise UnknownNameError(
            f"there is no mode {mode!r}{nearest(mode, known)}; modes: {', '.join(known)}"
        )
    return MODE_CODE[Mode(mode)]


class Commits:
    """Growing columns, one row per record; a view of one never changes."""

    def __init__(self) -> None:
        self._columns = {
            name: Column(ENDLESS, kind)
            for name, kind in (
                ("record", np.int64),
                ("step", np.int64),
                ("mode", np.int64),
                ("mode_step", np.int64),
                ("wall_s", np.float64),
                ("skipped", np.bool_),
                ("closing", np.bool_),
                ("tensors", np.int64),
                ("scalars", np.int64),
                ("raw", np.int64),
                ("width", np.int64),
            )
        }
        self.optimizers: list[tuple[str, ...]] = []

    def __len__(self) -> int:
        return len(self.optimizers)

    def extend(self, found: Sequence[StepEvents]) -> None:
        """Add records; their numbers ascend."""
        rows = [
            (
                events.record,
                events.key.step,
                MODE_CODE[events.key.mode],
                events.key.mode_step,
                events.commit.wall_s,
                events.commit.skipped,
                is_closing(events),
                events.commit.tensors,
                events.commit.scalars,
                events.commit.raw,
                events.commit.width,
            )
            for events in found
        ]
        for column, values in zip(self._columns.values(), zip(*rows, strict=True), strict=False):
            column.extend(values)
        self.optimizers += [events.commit.optimizers for events in found]

    @property
    def records(self) -> Ints:
        """Numbers of the records, ascending."""
        return self._columns["record"].view()

    @property
    def steps(self) -> Ints:
        """Steps finished before each record began."""
        return self._columns["step"].view()

    @property
    def modes(self) -> Ints:
        """Indices into `MODES`."""
        return self._columns["mode"].view()

    @property
    def mode_steps(self) -> Ints:
        """Places inside the mode."""
        return self._columns["mode_step"].view()

    @property
    def wall_s(self) -> Floats:
        """Unix time at which each was closed, seconds."""
        return self._columns["wall_s"].view()

    @property
    def skipped(self) -> Bools:
        """Return whether no optimizer applied the step."""
        return self._columns["skipped"].view()

    @property
    def closing(self) -> Bools:
        """Return whether the record is of no step.

        Facts alone, and what came after the last step.
        """
        return self._columns["closing"].view()

    def promised(self, kind: str) -> Ints:
        """Return the number of rows of a kind (`tensors`, `scalars`, `raw`) in each record."""
        return self._columns[kind].view()

    @property
    def widths(self) -> Ints:
        """Return the number of values in each row of statistics."""
        return self._columns["width"].view()

    def key(self, row: int) -> StepKey:
        """Return the step of the record in `row`."""
        return StepKey(
            step=int(self.steps[row]),
            mode=MODES[int(self.modes[row])],
            mode_step=int(self.mode_steps[row]),
        )

    def find(self, record_N: Ints) -> npt.NDArray[np.intp]:
        """Return the rows of records, -1 for those that are not committed."""
        record_C = self.records
        row_N = np.searchsorted(record_C, record_N)
        known_N = row_N < len(record_C)
        known_N[known_N] = record_C[row_N[known_N]] == record_N[known_N]
        return np.where(known_N, row_N, -1)


def is_closing(events: StepEvents) -> bool:
    """Return whether a record is not of a step or of an evaluation.

    It bears the step after the last one. Facts alone are of none; what was logged after the
    last step comes with the worker's end.
    """
    commit, mode = events.commit, events.key.mode
    if commit.optimizers:
        return False
    ended = any(isinstance(o, WorkerEnded) for o in events.observations)
    if mode is Mode.TRAIN:
        return ended
    return (ended or mode is Mode.PREDICT) and not (commit.tensors or commit.scalars or commit.raw)
