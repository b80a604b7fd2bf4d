"""One tensor of a run: its values as they were captured, its statistics, its history."""

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
        self._where = Located(span, info.identity, workers)

    @property
    def name(self) -> str:
        """The framework's own qualified name."""
        return self.info.name

    @property
    def kind(self) -> str:
        """Return the kind of the tensor: `weight`, `gradient` ..."""
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
        return self._where.steps(mode, worker)

    def raw_keys(
        self, mode: ModeName | None = None, worker: int | None = None
    ) -> tuple[StepKey, ...]:
        """Return the moments at which `at` has values of it, in order."""
        return self._where.raw_keys(mode, worker)

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
        return load(*self._where.chosen(self._where.find(step, mode, worker), copy))

    def shape_at(
        self,
        step: int | StepKey,
        mode: ModeName | None = None,
        worker: int | None = None,
        *,
        copy: int | None = None,
    ) -> tuple[int, ...]:
        """Return its shape at a step at which its values, or shapes alone, were kept; as `at`."""
        followed = self._where.followed_shape(step, mode, worker) if copy is None else None
        if followed is not None:
            return followed
        places = self._where.find(step, mode, worker, "shapes")
        return raw_row(*self._where.chosen(places, copy)).shape

    def values(
        self, mode: ModeName | None = None, worker: int | None = None
    ) -> Iterator[tuple[StepKey, Array]]:
        """Yield its values at every moment at which they were kept, one read each.

        Where a moment has several (micro-batches) its key comes with each, in their order.
        """
        yield from load_each(list(self._where.raw_rows(mode, worker)))

    def to_xarray(self, mode: ModeName = Mode.TRAIN, worker: int | None = None) -> xarray.DataArray:
        """Return its kept values over the steps, with dimensions `step`, `dim_0`, `dim_1` ...

        Statistics over the steps are in `Run.dataset`, and in `history`.

        Raises:
            MissingExtraError: xarray is not installed.
            StepUnavailableError: no values of it were kept in that mode.
            ValueError: its shape changes, so that no one array holds its values.
        """
        return labelled.values_over_steps(self.identity, list(self.values(mode, worker)))

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
        """Return how its values were spread over powers of two at a step, exactly counted.

        As captured (`statistics = ["exponents"]`), or else of its captured values. Those of
        micro-batches are of all of them together.

        Args:
            step: see `at`.
            mode: see `at`.
            worker: rank; `merged` = of the whole tensor, from the parts of all workers.

        Raises:
            StepUnavailableError: neither was captured at that step, or not by all workers
                that have a part.
            DamagedDataError: the stored bytes are not what was written.
        """
        if worker == MERGED:
            return exponents_of_all(self._where, step, mode)
        return exponents_of_one(self._where, step, mode, worker)

    def history(
        self, statistic: str, mode: ModeName = Mode.TRAIN, worker: int | None = None
    ) -> RunSeries:
        """Return one statistic over the steps, where captured; else that of its values.

        Args:
            statistic: an id of `statistics.summary.STATISTICS`.
            mode: of the steps.
            worker: rank.

        Raises:
            UnknownNameError: there is no such statistic; names the nearest.
        """
        if statistic in SHAPES:
            raise UnknownNameError(
                f"{statistic} are arrays, one for each step, and have no history of numbers; "
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
        """Work a statistic out from the values, of each moment at which they were kept."""
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
