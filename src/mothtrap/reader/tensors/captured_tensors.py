"""A tensor of a run: its captured values, its statistics, its history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.display import heading, pairs
from mothtrap.core.errors import UnknownNameError
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Ints
from mothtrap.reader.files.commits import ModeName, mode_code
from mothtrap.reader.files.parts import Span
from mothtrap.reader.series.merged import MERGED, Merged
from mothtrap.reader.series.run_series import RunSeries
from mothtrap.reader.series.worker_series import statistic_series
from mothtrap.reader.tensors import labelled
from mothtrap.reader.tensors.counted import exponents_of_all, exponents_of_one
from mothtrap.reader.tensors.exponent_counts import Exponents
from mothtrap.reader.tensors.kept import (
    bytes_of,
    derived,
    load,
    load_each,
    raw_row,
    summary_of,
)
from mothtrap.reader.tensors.located import Located
from mothtrap.statistics.distribution import SHAPES
from mothtrap.statistics.summary import STATISTICS, columns_for, derive
from mothtrap.store.progress import progress

if TYPE_CHECKING:
    import xarray

Array = npt.NDArray[Any]


class Tensor:
    """Tensor captured by the workers of a run; returned by `Run.tensor`.

    In every method, `mode` is the mode of the steps (None: all modes), and `worker` is a rank
    (None: the lowest rank that has the tensor).

    Args:
        span: the run, or a part of it.
        info: description of the tensor.
        workers: ranks that have the tensor, ascending.
    """

    def __init__(self, span: Span, info: TensorInfo, workers: tuple[int, ...]) -> None:
        self.info = info
        self.workers = workers
        self._span = span
        self._where = Located(span, info.identity, workers)

    @property
    def name(self) -> str:
        """Qualified name of the tensor in its framework."""
        return self.info.name

    @property
    def kind(self) -> str:
        """Kind of the tensor: `weight`, `gradient` ..."""
        return self.info.kind

    @property
    def identity(self) -> str:
        """Kind and name as `kind:name`."""
        return self.info.identity

    @property
    def module(self) -> str:
        """Path of the module that owns or produces the tensor."""
        return self.info.module

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape at the first observation."""
        return self.info.shape

    @property
    def dtype(self) -> str:
        """Element type at the first observation, e.g. `float32`."""
        return self.info.dtype

    @property
    def location(self) -> str | None:
        """`file:line` that constructs the tensor's module, if known."""
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
        """Return the job's steps with captured statistics or values, int64, shape (S,)."""
        return self._where.steps(mode, worker)

    def raw_keys(
        self, mode: ModeName | None = None, worker: int | None = None
    ) -> tuple[StepKey, ...]:
        """Return the keys of the steps whose values `at` can return, in order."""
        return self._where.raw_keys(mode, worker)

    def at(
        self,
        step: int | StepKey,
        mode: ModeName | None = None,
        worker: int | None = None,
        *,
        copy: int | None = None,
    ) -> Array:
        """Return the exact values at a step.

        Args:
            step: step of the job, or a `StepKey` if the step has several evaluations.
            mode: None means train if captured in train mode, otherwise the captured mode.
            worker: rank.
            copy: index of the copy, from 0, if a step has several copies: one per micro-batch or
                per call of the module. -1 is the last copy.

        Returns:
            An array with the captured shape and dtype (bfloat16 and float8 are dtypes of
            `ml_dtypes`), including NaN and Inf. The caller may modify it.

        Raises:
            StepUnavailableError: no values were captured at that step, or several evaluations
                or copies were; the message lists them.
            StepNotYetError: the job has not reached the step yet.
            DamagedDataError: the stored bytes do not match their checksum.
        """
        return load(*self._where.chosen(self._where.find(step, mode, worker), copy))

    def shape_at(
        self,
        step: int | StepKey,
        mode: ModeName | None = None,
        worker: int | None = None,
        *,
        copy: int | None = None,
    ) -> tuple[int, ...]:
        """Return the shape at a step at which values or shapes were captured.

        Takes the same arguments and raises the same errors as `at`.
        """
        followed = self._where.followed_shape(step, mode, worker) if copy is None else None
        if followed is not None:
            return followed
        places = self._where.find(step, mode, worker, "shapes")
        return raw_row(*self._where.chosen(places, copy)).shape

    def values(
        self, mode: ModeName | None = None, worker: int | None = None
    ) -> Iterator[tuple[StepKey, Array]]:
        """Yield key and values of every step at which values were captured, reading one at a time.

        If a step has several copies (micro-batches), its key is yielded with each, in order.
        """
        yield from load_each(list(self._where.raw_rows(mode, worker)))

    def to_xarray(self, mode: ModeName = Mode.TRAIN, worker: int | None = None) -> xarray.DataArray:
        """Return the captured values of all steps, with dimensions `step`, `dim_0`, `dim_1` ...

        For statistics over steps, see `Run.dataset` and `history`.

        Raises:
            MissingExtraError: xarray is not installed.
            StepUnavailableError: no values were captured in that mode.
            ValueError: the shape changes between steps, so the values do not fit in one array.
        """
        return labelled.values_over_steps(self.identity, list(self.values(mode, worker)))

    def statistics(
        self, step: int | StepKey, mode: ModeName | None = None, worker: int | None = None
    ) -> dict[str, float]:
        """Return the statistics at a step, as captured or else computed from the captured values.

        Statistics of micro-batches are computed over all micro-batches of the step.

        Args:
            step: see `at`.
            mode: see `at`.
            worker: rank.

        Returns:
            The known statistics by id; NaN if the tensor has no finite value.

        Raises:
            StepUnavailableError: neither statistics nor values were captured; see `at`.
        """
        for part, commit in self._where.moments(step, mode, worker):
            row = self._where.summary(part, commit)
            if row is not None:
                return derived(row)
        places = self._where.find(step, mode, worker, "statistics")
        return derived(summary_of(places, STATISTICS))

    def exponents(
        self,
        step: int | StepKey,
        mode: ModeName | None = None,
        worker: Merged | int | None = None,
    ) -> Exponents:
        """Return the exact histogram of the values over powers of two at a step.

        The histogram is captured with `statistics = ["exponents"]`; otherwise it is computed from
        the captured values. Values of micro-batches are counted together.

        Args:
            step: see `at`.
            mode: see `at`.
            worker: rank; "merged" joins the parts of all workers.

        Raises:
            StepUnavailableError: neither exponents nor values were captured at that step, or some
                worker's part is missing.
            DamagedDataError: the stored bytes do not match their checksum.
        """
        if worker == MERGED:
            return exponents_of_all(self._where, step, mode)
        return exponents_of_one(self._where, step, mode, worker)

    def history(
        self, statistic: str, mode: ModeName = Mode.TRAIN, worker: int | None = None
    ) -> RunSeries:
        """Return one statistic over steps, as captured or else computed from the captured values.

        Args:
            statistic: id of a statistic, one of `statistics.summary.STATISTICS`.
            mode: mode of the steps.
            worker: rank.

        Raises:
            UnknownNameError: there is no such statistic; the message suggests one.
        """
        if statistic in SHAPES:
            raise UnknownNameError(
                f"{statistic} are arrays, one per step, and have no history of numbers; "
                f"`run.tensor('{statistic}({self.identity})').values()` yields them"
            )
        columns_for((statistic,))
        mode_code(mode)
        rank = self._where.worker(worker)
        series = statistic_series(self._span.parts(rank), self.info, statistic, mode)
        if len(series):
            return series
        found = self._of_values(statistic, mode, worker)
        return RunSeries(
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
        """Compute a statistic from the stored values of each moment."""
        places = list(self._where.raw_rows(mode, worker))
        found, done = [], 0
        with progress("reading values", lambda: bytes_of(places)) as told:
            for (part, commit), copies in groupby(places, key=itemgetter(0, 1)):
                of_step = list(copies)
                number = derive(summary_of(of_step, (statistic,)), statistic)[0]
                found.append((int(part.view.commits.steps[commit]), float(number)))
                done += bytes_of(of_step)
                told(done)
        return found
