"""One tensor of a run: its values as they were captured, its statistics, its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mothtrap.core.display import heading, pairs
from mothtrap.core.errors import StepNotYetError, StepUnavailableError, UnknownNameError
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import Kind, TensorInfo
from mothtrap.core.window import Ints, Series
from mothtrap.reader.commits import ModeName, mode_code
from mothtrap.reader.matrices import captured
from mothtrap.reader.numbers import statistic_series, summaries
from mothtrap.reader.parts import Part, Span
from mothtrap.reader.rows import Piece, piece_of
from mothtrap.reader.steps import StepState, Timeline
from mothtrap.statistics.dtypes import dtype_of
from mothtrap.statistics.numpy import summarize
from mothtrap.statistics.summary import STATISTICS, WIDTH, columns_for, derive, merge
from mothtrap.store.progress import progress
from mothtrap.store.raw_reading import RawRow, read_bytes

Array = npt.NDArray[Any]
_Place = tuple[Part, int, Piece, int]
"""Where a copy of a tensor is: record and row."""
_NUMBERS = ("tensor", "segment", "offset", "size", "checksum")


class Tensor:
    """A tensor as captured by the workers of a run; made by `Run.tensor`.

    Wherever a method takes them, `mode` is of the steps (None: all modes) and `worker`
    is a rank (None: the lowest that has the tensor).

    Args:
        span: the run, or a part of it.
        info: what is known of the tensor.
        workers: ranks that have it, ascending.
    """

    def __init__(self, span: Span, info: TensorInfo, workers: tuple[int, ...]) -> None:
        self.info = info
        self.workers = workers
        self._span = span

    @property
    def name(self) -> str:
        """The framework's own qualified name."""
        return self.info.name

    @property
    def kind(self) -> Kind:
        """What it is: `weight`, `gradient` ..."""
        return self.info.kind

    @property
    def identity(self) -> str:
        """The text form `kind:name`."""
        return self.info.identity

    @property
    def module(self) -> str:
        """Path of the module that owns or produces it."""
        return self.info.module

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape when first seen."""
        return self.info.shape

    @property
    def dtype(self) -> str:
        """Its element type when first seen."""
        return self.info.dtype

    @property
    def location(self) -> str | None:
        """`file:line` of the construction of its module."""
        return self.info.location

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        return f"<Tensor {self.identity}: {self.dtype or 'unknown type'} {shape}>"

    def _repr_html_(self) -> str:
        info = self.info
        rows = {
            "shape": "x".join(map(str, info.shape)) or "scalar",
            "dtype": info.dtype,
            "module": f"{info.module} {info.module_type}".strip(),
            "made at": info.location or "",
            "scope": info.scope,
            "workers": ", ".join(map(str, self.workers)),
        }
        return heading(info.identity) + pairs({k: v for k, v in rows.items() if v})

    def steps(self, mode: ModeName | None = None, worker: int | None = None) -> Ints:
        """Return the job's steps at which statistics or values of it were captured."""
        found = [np.empty(0, np.int64)]
        for part, ids in self._parts(worker):
            for piece in (*part.view.statistics(), *part.view.raw()):
                commit_N = piece.commit_N[_are(piece.column("tensor"), ids)]
                found.append(part.view.commits.steps[commit_N[part.counts(commit_N, mode)]])
        step_N = np.sort(np.concatenate(found), kind="stable")
        return step_N[np.diff(step_N, prepend=-1) > 0]

    def raw_keys(
        self, mode: ModeName | None = None, worker: int | None = None
    ) -> tuple[StepKey, ...]:
        """Return the moments at which `at` has values of it, in order."""
        keys = (part.view.commits.key(c) for part, c, _, _ in self._raw_rows(mode, worker))
        return tuple(dict.fromkeys(keys))

    def at(
        self,
        step: int | StepKey,
        mode: ModeName | None = None,
        worker: int | None = None,
        *,
        copy: int | None = None,
    ) -> Array:
        """Return its values at a step, exactly as they were.

        Args:
            step: of the job; or one moment, where a step has several (evaluations).
            mode: None means train if it was captured then, else whatever was.
            worker: rank.
            copy: which one, from 0, where a step has several of it: of micro-batches, or of
                calls of one module. -1 is the last one.

        Returns:
            An array of the captured shape and type (bfloat16 and float8 are types of
            `ml_dtypes`); NaN and Inf are as they were. It is the caller's own.

        Raises:
            StepUnavailableError: no values were kept at that step, or it has several
                moments or copies; says which there are. `StepNotYetError` if it has not come
                yet.
            DamagedDataError: the stored bytes are not what was written.
        """
        return _load(*self._chosen(self._find(step, mode, worker), copy))

    def shape_at(
        self,
        step: int | StepKey,
        mode: ModeName | None = None,
        worker: int | None = None,
        *,
        copy: int | None = None,
    ) -> tuple[int, ...]:
        """Return its shape at a step at which its values were kept; as `at`."""
        return _raw_row(*self._chosen(self._find(step, mode, worker), copy)).shape

    def values(
        self, mode: ModeName | None = None, worker: int | None = None
    ) -> Iterator[tuple[StepKey, Array]]:
        """Yield its values at every moment at which they were kept, one read each.

        Where a moment has several (micro-batches) its key comes with each, in their order.
        """
        for part, commit, piece, row in self._raw_rows(mode, worker):
            yield part.view.commits.key(commit), _load(part, commit, piece, row)

    def statistics(
        self, step: int | StepKey, mode: ModeName | None = None, worker: int | None = None
    ) -> dict[str, float]:
        """Return its statistics at a step: as captured, or else of its captured values.

        Those of micro-batches are of all of them together.

        Args:
            step: see `at`.
            mode: see `at`.
            worker: rank.

        Returns:
            Values by id, without those that are not known. Those of a tensor without any
            finite value are NaN.

        Raises:
            StepUnavailableError: neither was captured; see `at`.
        """
        for part, commit in self._moments(step, mode, worker):
            row = self._summary(part, commit)
            if row is not None:
                return _derived(row)
        return _derived(_summary_of(self._find(step, mode, worker), STATISTICS))

    def history(
        self, statistic: str, mode: ModeName = Mode.TRAIN, worker: int | None = None
    ) -> Series:
        """Return one statistic over the steps, where captured; else that of its values.

        Args:
            statistic: an id of `statistics.summary.STATISTICS`.
            mode: of the steps.
            worker: rank.

        Raises:
            UnknownNameError: there is no such statistic; names the nearest.
        """
        columns_for((statistic,))
        mode_code(mode)
        rank = self._worker(worker)
        series = statistic_series(self._span.parts(rank), self.info, statistic, mode)
        if len(series):
            return series
        found = self._of_values(statistic, mode, worker)
        return Series(
            name=statistic,
            of=self.identity,
            mode=Mode(mode),
            steps_S=np.array([step for step, _ in found], np.int64),
            values_S=np.array([value for _, value in found], np.float64),
            location=self.location,
            total=len(found),
            first=found[0][1] if found else float("nan"),
        )

    def _of_values(
        self, statistic: str, mode: ModeName, worker: int | None
    ) -> list[tuple[int, float]]:
        """Work a statistic out from the values, of each moment at which they were kept."""
        places = list(self._raw_rows(mode, worker))
        found, done = [], 0
        with progress("reading values", lambda: _bytes_of(places)) as told:
            for (part, commit), copies in groupby(places, key=itemgetter(0, 1)):
                of_step = list(copies)
                number = derive(_summary_of(of_step, (statistic,)), statistic)[0]
                found.append((int(part.view.commits.steps[commit]), float(number)))
                done += _bytes_of(of_step)
                told(done)
        return found

    def _worker(self, worker: int | None) -> int:
        if worker is not None and worker not in self.workers:
            raise UnknownNameError(
                f"worker {worker} has no {self.identity}; workers that have it: "
                f"{', '.join(map(str, self.workers))}"
            )
        return self.workers[0] if worker is None else worker

    def _parts(self, worker: int | None) -> list[tuple[Part, list[int]]]:
        parts = self._span.parts(self._worker(worker))
        return [(part, part.view.ids(self.identity)) for part in parts]

    def _raw_rows(self, mode: ModeName | None, worker: int | None) -> Iterator[_Place]:
        for part, ids in self._parts(worker):
            for piece in part.view.raw():
                rows = np.flatnonzero(_are(piece.column("tensor"), ids))
                rows = rows[part.counts(piece.commit_N[rows], mode)]
                for row in rows.tolist():
                    yield part, int(piece.commit_N[row]), piece, row

    def _moments(
        self, step: int | StepKey, mode: ModeName | None, worker: int | None
    ) -> list[tuple[Part, int]]:
        """Return the records of a step, the train step first."""
        key = step if isinstance(step, StepKey) else None
        number = step.step if isinstance(step, StepKey) else int(step)
        found = [
            (part, commit)
            for part, _ in self._parts(worker)
            for commit in part.at(number, key.mode if key else mode).tolist()
            if key is None or part.view.commits.key(commit) == key
        ]
        return found[::-1]  # evaluations of a step come before it

    def _find(self, step: int | StepKey, mode: ModeName | None, worker: int | None) -> list[_Place]:
        """Return where the values of one moment are: of each copy, in order."""
        found = [
            (part, commit, *place)
            for part, commit in self._moments(step, mode, worker)
            for place in _rows(part.view.raw(), commit, part.view.ids(self.identity))
        ]
        if not found:
            self._complain(step, mode, worker)
        keys = list(dict.fromkeys(part.view.commits.key(commit) for part, commit, _, _ in found))
        if len(keys) > 1 and keys[0].mode is not Mode.TRAIN:
            first, last = keys[-1], keys[0]
            raise StepUnavailableError(
                f"step {first.step} has {len(keys)} moments of mode {first.mode} with "
                f"{self.identity}: mode_step {first.mode_step} to {last.mode_step}; pass one of "
                "them as a StepKey, see `raw_keys`"
            )
        return [place for place in found if place[:2] == found[0][:2]]

    def _chosen(self, copies: list[_Place], copy: int | None) -> _Place:
        count = len(copies)
        if copy is None and count > 1:
            part, commit, _, _ = copies[0]
            raise StepUnavailableError(
                f"step {part.view.commits.key(commit).step} has {count} copies of {self.identity}, "
                f"of micro-batches or calls: pass copy=0 to copy={count - 1}, or take all from "
                "`values()`"
            )
        if copy is not None and not -count <= copy < count:
            raise StepUnavailableError(
                f"there is no copy {copy} of {self.identity}: that step has {count}, from 0"
            )
        return copies[copy or 0]

    def _complain(self, step: int | StepKey, mode: ModeName | None, worker: int | None) -> NoReturn:
        wanted = mode or (step.mode if isinstance(step, StepKey) else Mode.TRAIN)
        number = step.step if isinstance(step, StepKey) else int(step)
        status = Timeline(self._span).status(number, wanted)
        if status.state is StepState.NOT_YET:
            raise StepNotYetError(
                f"{self.identity} has no values of step {number} yet: the job has not come to it; "
                "`Run.wait_for` waits"
            )
        steps = sorted({key.step for key in self.raw_keys(mode, worker)})
        if not steps:
            raise StepUnavailableError(
                f"no values of {self.identity} were kept, so there are none of step {number}; "
                "capture them with a collection that has raw = true"
            )
        near = min(steps, key=lambda other: abs(other - number))
        raise StepUnavailableError(
            f"no values of {self.identity} were kept at step {number}; they were at "
            f"{len(steps)} steps from {steps[0]} to {steps[-1]}, the nearest is {near}"
        )

    def _summary(self, part: Part, commit: int) -> npt.NDArray[np.float64] | None:
        ids = part.view.ids(self.identity)
        for piece, row in _rows(part.view.statistics(), commit, ids):
            summary_NF = summaries(piece)
            if summary_NF.shape[1] == WIDTH:
                return summary_NF[row : row + 1]
        return None


def _rows(pieces: Sequence[Piece], commit: int, ids: Sequence[int]) -> list[tuple[Piece, int]]:
    """Return the rows of a tensor in one record, and where they are."""
    piece = piece_of(pieces, commit)
    if piece is None:
        return []
    place = piece.rows_of(commit)
    found = np.flatnonzero(_are(piece.column("tensor")[place], ids))
    return [(piece, place.start + row) for row in found.tolist()]


def _are(id_N: Array, ids: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which of many ids are those of a tensor: mostly it has one."""
    found: npt.NDArray[np.bool_] = id_N == ids[0] if len(ids) == 1 else np.isin(id_N, ids)
    return found


def _raw_row(part: Part, commit: int, piece: Piece, row: int) -> RawRow:
    batch, commits = piece.batch, part.view.commits
    return RawRow(
        record=int(commits.records[commit]),
        key=commits.key(commit),
        dtype=batch.column("dtype")[row].as_py(),
        shape=tuple(batch.column("shape")[row].as_py()),
        **{name: int(piece.column(name)[row]) for name in _NUMBERS},
    )


def _load(part: Part, commit: int, piece: Piece, row: int) -> Array:
    place = _raw_row(part, commit, piece, row)
    data = read_bytes(part.view.folder, place)
    return np.frombuffer(data, dtype_of(place.dtype)).reshape(place.shape)


def _bytes_of(places: Sequence[_Place]) -> int:
    return sum(int(piece.column("size")[row]) for _, _, piece, row in places)


def _summary_of(copies: Sequence[_Place], statistics: Sequence[str]) -> npt.NDArray[np.float64]:
    """Statistics of values that were kept, of several as of one; float64, shape (1, F)."""
    rows = [summarize([_load(*place)], statistics) for place in copies]
    return rows[0] if len(rows) == 1 else merge(np.concatenate(rows))[None]


def _derived(summary_1F: npt.NDArray[np.float64]) -> dict[str, float]:
    found = {}
    for statistic in STATISTICS:
        value = derive(summary_1F, statistic)
        if captured(summary_1F, statistic, value)[0]:
            found[statistic] = float(value[0])
    return found
