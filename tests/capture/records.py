"""Step records, and a consumer that can be paused, for tests of the path to the disk."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import COLUMN, WIDTH

NEVER_S = 3600.0
"""A polling interval longer than any test: only an explicit wake-up wakes the consumer."""
PATIENCE_S = 60.0
"""Far longer than anything here takes: a hang becomes a failure."""
BYTES = 1024 + 128 + 4 * WIDTH * 8
"""Size of a record of four tensors in a channel."""


def record(step: int, *, nonfinite: Sequence[int] = (), **changes: object) -> StepRecord:
    """Return a record of four tensors; those in `nonfinite` have one NaN."""
    summary_TF = np.ones((4, WIDTH))
    summary_TF[:, [COLUMN["nan"], COLUMN["inf"]]] = 0
    summary_TF[list(nonfinite), COLUMN["nan"]] = 1
    values: dict[str, object] = {
        "key": StepKey(step=step, mode_step=step),
        "wall_s": float(step),
        "tensor_T": np.arange(4, dtype=np.uint32),
        "summary_TF": summary_TF,
        "scalars": (Scalar("loss", "main", 1.0),),
    }
    return StepRecord(**(values | changes))  # type: ignore[arg-type]


def defined(number: int) -> tuple[int, TensorInfo]:
    return number, TensorInfo(kind="gradient", name=f"layer{number}.weight")


class Consumer:
    """Keeps its batches; `hold` makes it wait inside the next call until `let_go`.

    Attributes:
        batches: records of each call.
        entered: set once a call has begun.
    """

    def __init__(self) -> None:
        self.batches: list[list[StepRecord]] = []
        self.errors: list[BaseException] = []
        self.entered = threading.Event()
        self._gate = threading.Event()
        self._gate.set()

    def __call__(self, records: Sequence[StepRecord]) -> None:
        self.batches.append(list(records))
        self.entered.set()
        assert self._gate.wait(PATIENCE_S)

    def hold(self) -> None:
        self._gate.clear()

    def let_go(self) -> None:
        self._gate.set()

    @property
    def records(self) -> list[StepRecord]:
        return [record for batch in self.batches for record in batch]

    @property
    def steps(self) -> list[int]:
        return [record.key.step for record in self.records]
