"""Statistics of the tensors of one kind, step by step.

Shape suffixes: S = steps, T = tensors of a record, C = columns (tensors ever seen),
F = fields of a summary row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.core.needs import Need
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Bools, Floats, Matrix
from mothtrap.reader.files.columns import Column, Table
from mothtrap.statistics.summary import COLUMN, WIDTH, columns_for, derive

# NaN in one of these means "no finite element" if there is none, see `statistics.summary`.
_OF_FINITE = frozenset({"min", "max", "mean", "std", "abs_mean", "abs_max"})


@dataclass(frozen=True, slots=True)
class Choice:
    """Tensors of a kind in a mode, optionally filtered.

    `roles` are roles of the modules; None means all. `of_root`: only tensors of whole models.
    """

    kind: str
    mode: Mode = Mode.TRAIN
    roles: frozenset[str] | None = None
    of_root: bool = False

    def holds(self, tensor: TensorInfo) -> bool:
        """Return whether a tensor is selected."""
        in_role = self.roles is None or tensor.role in self.roles
        return tensor.kind == self.kind and in_role and (tensor.of_root or not self.of_root)

    def joined(self, other: Choice) -> Choice:
        """Return the union of two choices of the same kind and mode."""
        both = self.roles is not None and other.roles is not None
        roles = (self.roles or frozenset()) | (other.roles or frozenset()) if both else None
        return Choice(self.kind, self.mode, roles, self.of_root and other.of_root)


class Group:
    """Statistics of the same tensors.

    Args:
        choice: choice of tensors.
        keep: rows to show, by statistic.
    """

    def __init__(self, choice: Choice, keep: Mapping[str, int]) -> None:
        self.choice = choice
        self._rows = {statistic: _Rows(rows) for statistic, rows in keep.items()}
        self._tensors: list[TensorInfo] = []
        self._shown: tuple[TensorInfo, ...] = ()
        self._column_of_id = np.full(64, -1, np.intp)
        self._picked_T: npt.NDArray[np.intp] | None = None
        self._column_T: npt.NDArray[np.intp] = np.empty(0, np.intp)

    def define(self, number: int, tensor: TensorInfo) -> None:
        """Assign a column to a tensor; a tensor that already has one is updated."""
        if not self.choice.holds(tensor):
            return
        if number >= len(self._column_of_id):
            grown = np.full(2 * number, -1, np.intp)
            grown[: len(self._column_of_id)] = self._column_of_id
            self._column_of_id = grown
        column = int(self._column_of_id[number])
        if column < 0:
            column = self._column_of_id[number] = len(self._tensors)
            self._tensors.append(tensor)
            for rows in self._rows.values():
                rows.table.widen(len(self._tensors))
        self._tensors[column] = tensor
        self._shown = ()

    def select(self, tensor_T: npt.NDArray[np.uint32]) -> None:
        """Find the columns of the tensors of a record; undefined tensors have none."""
        known_T = tensor_T < len(self._column_of_id)
        column_T = np.where(known_T, self._column_of_id[np.where(known_T, tensor_T, 0)], -1)
        picked_T = np.flatnonzero(column_T >= 0)
        self._column_T = column_T[picked_T]
        self._picked_T = None if len(picked_T) == len(tensor_T) else picked_T

    def append(self, step: int, skipped: bool, summary_TF: Floats) -> None:
        """Append the rows of a step for the last selected tensors."""
        # A different width comes from another version, so no column can be trusted.
        if not len(self._column_T) or summary_TF.shape[1] != WIDTH:
            return
        if self._picked_T is not None:
            summary_TF = summary_TF[self._picked_T]
        for statistic, rows in self._rows.items():
            value_T, column_T = derive(summary_TF, statistic), self._column_T
            present_T = captured(summary_TF, statistic, value_T)
            if not present_T.all():
                value_T, column_T = value_T[present_T], column_T[present_T]
            if len(value_T):
                rows.append(step, skipped, column_T, value_T)

    def show(self) -> list[Matrix]:
        """Return a matrix for each statistic that has rows."""
        if len(self._shown) != len(self._tensors):
            self._shown = tuple(self._tensors)
        shown = []
        for statistic, rows in self._rows.items():
            steps_S = rows.steps.view()
            if len(steps_S):
                values_ST, present_ST = rows.table.views()
                shown.append(
                    Matrix(
                        kind=self.choice.kind,
                        statistic=statistic,
                        tensors=self._shown,
                        steps_S=steps_S,
                        values_ST=values_ST,
                        present_ST=present_ST,
                        skipped_S=rows.skipped.view(),
                        mode=self.choice.mode,
                    )
                )
        return shown

    def rewind(self, step: int) -> None:
        """Drop the rows from `step` on."""
        for rows in self._rows.values():
            before = int(np.count_nonzero(rows.steps.view() < step))
            for part in (rows.steps, rows.skipped, rows.table):
                part.forget(before)


def groups(needs: Sequence[Need]) -> list[Group]:
    """Return the groups that cover the needs, with each kind, mode and statistic once.

    Raises:
        UnknownNameError: a need names a statistic that does not exist.
    """
    keep: dict[tuple[str, Mode, str], int] = {}
    choices: dict[tuple[str, Mode, str], Choice] = {}
    for need in needs:
        columns_for(need.statistics)
        for choice in _choices(need):
            for statistic in need.statistics:
                key = (choice.kind, choice.mode, statistic)
                keep[key] = max(keep.get(key, 1), need.steps)
                choices[key] = choice.joined(choices.get(key, choice))
    shared: dict[Choice, dict[str, int]] = {}
    for key, rows in keep.items():
        shared.setdefault(choices[key], {})[key[2]] = rows
    return [Group(choice, statistics) for choice, statistics in shared.items()]


def _choices(need: Need) -> Iterator[Choice]:
    for kind in need.kinds:
        roles = frozenset(need.roles) if need.roles and kind == "activation" else None
        for mode in need.modes:
            yield Choice(kind, mode, roles, need.of_root)


def captured(summary_TF: Floats, statistic: str, value_T: Floats) -> Bools:
    """Return the rows for which a statistic was captured, even if its value is NaN.

    Args:
        summary_TF: float64, shape (T, F), rows of `statistics.summary.FIELDS`.
        statistic: an id.
        value_T: result of `derive` for them.
    """
    return captured_in(lambda name: summary_TF[:, COLUMN[name]], statistic, value_T)


def captured_in(column: Callable[[str], Floats], statistic: str, value_T: Floats) -> Bools:
    """Return the rows for which a statistic was captured, given columns; see `captured`."""
    if statistic == "l2":
        # A captured statistic is a number in the row even if no element was finite.
        return ~np.isnan(column("l2"))
    missing_T = np.isnan(value_T)
    if statistic in _OF_FINITE and missing_T.any():
        missing_T &= column("count") - column("nan") - column("inf") != 0
    return ~missing_T


class _Rows:
    __slots__ = ("skipped", "steps", "table")

    def __init__(self, keep: int) -> None:
        self.steps = Column(keep, np.int64)
        self.skipped = Column(keep, np.bool_)
        self.table = Table(keep)

    def append(
        self, step: int, skipped: bool, column_T: npt.NDArray[np.intp], value_T: Floats
    ) -> None:
        self.steps.append(step)
        self.skipped.append(skipped)
        self.table.append(column_T, value_T)
