"""The committed records of one worker: their times and contents.

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
from mothtrap.reader.files.columns import Column
from mothtrap.store.event_columns import EventBlock

MODES = tuple(Mode)
MODE_CODE = {mode: code for code, mode in enumerate(MODES)}
ModeName = Mode | Literal["train", "eval", "predict"]
ENDLESS = 1 << 40
"""More rows than any run has, so that nothing is dropped."""


def mode_code(mode: ModeName) -> int:
    """Return the index of a mode in `MODES`.

    Raises:
        UnknownNameError: there is no such mode; the message suggests one.
    """
    if mode not in MODE_CODE:
        known = [each.value for each in MODES]
        raise UnknownNameError(
            f"there is no mode {mode!r}{nearest(mode, known)}; modes: {', '.join(known)}"
        )
    return MODE_CODE[Mode(mode)]


class Commits:
    """Growing columns with one row per record; existing views never change."""

    def __init__(self) -> None:
        self._columns = {
            name: Column(ENDLESS, kind)
            for name, kind in (
                ("record", np.int64),
                ("step", np.int64),
                ("mode", np.int8),
                ("mode_step", np.int64),
                ("wall_s", np.float64),
                ("skipped", np.bool_),
                ("closing", np.bool_),
                ("tensors", np.int32),
                ("scalars", np.int32),
                ("raw", np.int32),
                ("width", np.int32),
                ("optimizers", np.int32),
            )
        }
        self._optimizers: dict[tuple[str, ...], int] = {}

    def __len__(self) -> int:
        return len(self.records)

    def extend(self, found: EventBlock) -> None:
        """Append records with ascending numbers."""
        known, which_C = self._optimizers, found.which_C
        ended = [place for place, fact in found.observations if isinstance(fact, WorkerEnded)]
        told_U = {
            "skipped": [commit.skipped for commit in found.commits],
            "tensors": [commit.tensors for commit in found.commits],
            "scalars": [commit.scalars for commit in found.commits],
            "raw": [commit.raw for commit in found.commits],
            "width": [commit.width for commit in found.commits],
            "optimizers": [known.setdefault(c.optimizers, len(known)) for c in found.commits],
        }
        added = {name: np.array(values)[which_C] for name, values in told_U.items()}
        added |= {
            "record": found.record_C,
            "step": found.step_C,
            "mode": found.mode_C,
            "mode_step": found.mode_step_C,
            "wall_s": found.wall_s_C,
        }
        stepped_C = np.array([bool(commit.optimizers) for commit in found.commits])[which_C]
        empty_C = (added["tensors"] == 0) & (added["scalars"] == 0) & (added["raw"] == 0)
        added["closing"] = ~stepped_C & _closing(found.mode_C, ended, empty_C)
        for name, column in self._columns.items():
            column.extend(added[name])

    def optimizers(self, commit_N: Ints) -> list[tuple[str, ...]]:
        """Return the optimizers that stepped in some records."""
        names = list(self._optimizers)
        return [names[code] for code in self._columns["optimizers"].view()[commit_N].tolist()]

    @property
    def records(self) -> Ints:
        """Numbers of the records, ascending."""
        return self._columns["record"].view()

    @property
    def steps(self) -> Ints:
        """Number of steps finished before each record began."""
        return self._columns["step"].view()

    @property
    def modes(self) -> Ints:
        """Indices into `MODES`."""
        return self._columns["mode"].view()

    @property
    def mode_steps(self) -> Ints:
        """Numbers of the records within their mode."""
        return self._columns["mode_step"].view()

    @property
    def wall_s(self) -> Floats:
        """Unix time at which each record was closed, in seconds."""
        return self._columns["wall_s"].view()

    @property
    def skipped(self) -> Bools:
        """Return a mask of records whose step no optimizer applied."""
        return self._columns["skipped"].view()

    @property
    def closing(self) -> Bools:
        """Return a mask of records that belong to no step.

        These are records with only facts, and records after the last step.
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
        """Return the step key of the record in `row`."""
        return StepKey(
            step=int(self.steps[row]),
            mode=MODES[int(self.modes[row])],
            mode_step=int(self.mode_steps[row]),
        )

    def find(self, record_N: Ints) -> npt.NDArray[np.intp]:
        """Return the rows of records; -1 for records that are not committed."""
        record_C = self.records
        row_N = np.searchsorted(record_C, record_N)
        known_N = row_N < len(record_C)
        known_N[known_N] = record_C[row_N[known_N]] == record_N[known_N]
        return np.where(known_N, row_N, -1)


def _closing(mode_C: Ints, ended: Sequence[int], empty_C: Bools) -> Bools:
    """Return which records belong neither to an optimizer step nor to an evaluation.

    Such a record has the number of the step after the last step. Records with only facts belong to
    no step; values logged after the last step are in the record of the worker's end.
    """
    ended_C = np.zeros(len(mode_C), np.bool_)
    ended_C[ended] = True
    predicts_C = mode_C == MODE_CODE[Mode.PREDICT]
    found: Bools = np.where(
        mode_C == MODE_CODE[Mode.TRAIN], ended_C, (ended_C | predicts_C) & empty_C
    )
    return found
