"""A recorder of lists of numbers, with all the parts that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mothtrap.capture.containment import Containment
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.selection import Stream
from mothtrap.core.records import StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import numpy as arithmetic
from mothtrap.statistics.summary import COLUMN, WIDTH

Values = list[float]


class Clock:
    """A clock that is advanced by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Arithmetic:
    """A reducer of lists of numbers; every call takes `cost_s`."""

    def __init__(self, clock: Clock) -> None:
        self.calls: list[str] = []
        self.cost_s = 0.0
        self._clock = clock

    def summarize(
        self, tensors: Sequence[Values], statistics: Iterable[str]
    ) -> npt.NDArray[np.float64]:
        return self._rows("summarize", tensors)

    def norms(self, tensors: Sequence[Values]) -> npt.NDArray[np.float64]:
        return self._rows("norms", tensors)

    def count_exponents_of(self, tensors: Sequence[Values]) -> npt.NDArray[np.int64]:
        self.calls.append("count_exponents_of")
        self._clock.now_s += self.cost_s
        return arithmetic.count_exponents_of([np.array(values) for values in tensors])

    def describe(self, tensor: Values) -> tuple[str, tuple[int, ...], int]:
        return "float64", (len(tensor),), 8 * len(tensor)

    def copy_bytes(self, tensor: Values, out_N: npt.NDArray[np.uint8]) -> None:
        self.calls.append("copy")
        out_N.view(np.float64)[:] = tensor

    def gather_bytes(
        self, tensors: Sequence[Values], begins: Sequence[int], out_N: npt.NDArray[np.uint8]
    ) -> None:
        for tensor, begin in zip(tensors, begins, strict=True):
            self.copy_bytes(tensor, out_N[begin : begin + 8 * len(tensor)])

    def _rows(self, call: str, tensors: Sequence[Values]) -> npt.NDArray[np.float64]:
        self.calls.append(call)
        self._clock.now_s += self.cost_s
        rows = np.full((len(tensors), WIDTH), np.nan)
        for row, values in zip(rows, tensors, strict=True):
            finite = [v for v in values if np.isfinite(v)]
            row[COLUMN["count"]] = len(values)
            row[COLUMN["nan"]] = sum(np.isnan(v) for v in values)
            row[COLUMN["inf"]] = sum(np.isinf(v) for v in values)
            row[COLUMN["l2"]] = np.sqrt(sum(v * v for v in finite))
            row[COLUMN["mean"]] = np.mean(finite) if finite else np.nan
        return rows


class Sink:
    def __init__(self, error: Exception | None = None) -> None:
        self.records: list[StepRecord] = []
        self.urgent: list[bool] = []
        self.calls = 0
        self._error = error

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        self.calls += 1
        if self._error is not None:
            raise self._error
        self.records.append(record)
        self.urgent.append(urgent)


class Job:
    """A recorder with all the parts that it needs."""

    def __init__(
        self,
        found: Sequence[Stream],
        *,
        overhead: float = 0.0,
        raw_bytes: int = 64 << 20,
        open_first: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self.clock = Clock()
        self.arithmetic = Arithmetic(self.clock)
        self.said: list[str] = []
        self.sink = Sink()
        self.opened = 0
        self._open_first = open_first
        self.recorder: Recorder[Values] = Recorder(
            self.arithmetic,
            found,
            Containment(self.said.append),
            overhead=overhead,
            raw_bytes=raw_bytes,
            on_first_step=self._open,
            clock=self.clock,
        )

    def _open(self) -> None:
        self.opened += 1
        self.recorder.sinks.append(self.sink)
        self._open_first(self)

    def close(self, step: int, *, skipped: bool = False, after_s: float = 0.5) -> StepRecord:
        self.clock.now_s += after_s
        self.recorder.close_step(
            ClosedStep(
                step=step,
                owners="Adam",
                optimizers=("Adam",),
                skipped=skipped,
                series=(),
                micro_batches=2,
            )
        )
        return self.sink.records[-1]

    def gradient(self, name: str = "weight") -> int:
        return self.recorder.tensors.define(TensorInfo(kind="gradient", name=name))
