"""Record of one finished step, passed from the recorder to the writer and the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core.fact import Fact
from mothtrap.core.steps import StepKey
from mothtrap.core.tensors import TensorInfo


class Scalar(msgspec.Struct, frozen=True):
    """A number of a step; `of` names its owner ('' = the step itself).

    Names in use: `loss` (of a loss series), `lr` (of an optimizer: the largest over its groups),
    `gradient_norm` (of an optimizer, before clipping if that was visible), `gradient_state` (of an
    optimizer: see `GradientState`), `stale_gradient` (of an optimizer: 1 if no backward pass since
    its last step began with cleared gradients; with a closure: the number of evaluations that did
    not), `clip_limit` (the norm to which gradients were clipped), `loss_scale`, `skipped` (1 if no
    optimizer applied the step), `micro_batches`, `step_s` (wall seconds since the previous step),
    `own_s` (seconds of it that mothtrap used on the training thread), `memory_bytes` (memory in use
    by the `process` or a device, measured occasionally), and names that users log.
    """

    name: str
    of: str
    value: float


class GradientState:
    """Values of the `gradient_state` scalar, per optimizer and step."""

    FRESH = 0.0
    """At least one gradient changed since the optimizer's last step."""
    UNCHANGED = 1.0
    """No gradient changed: the same gradients are applied again."""
    ABSENT = 2.0
    """No parameter of the optimizer has a gradient."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawBlock:
    """Unchanged values of some tensors, one after the other in one memory block.

    Attributes:
        tensor_R: uint32, shape (R,): tensor of each row.
        dtypes: their types, by name in `statistics.dtypes`.
        shapes: their shapes.
        offset_R: int64, shape (R + 1,): start of each tensor in `bytes_N`, and the end.
        bytes_N: uint8, shape (N,): each tensor in C order, little-endian.
        purposes: purpose of each copy until it has been processed (see `capture.reductions`);
            empty: all are stored.
    """

    tensor_R: npt.NDArray[np.uint32]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    offset_R: npt.NDArray[np.int64]
    bytes_N: npt.NDArray[np.uint8]
    purposes: tuple[frozenset[str], ...] = ()


class Completion(Protocol):
    """Parts of a record that are still in transfer from a device.

    Attributes:
        nbytes: size of the expected rows in bytes.
    """

    nbytes: int

    def has_arrived(self) -> bool:
        """Return whether `complete` would return immediately."""

    def complete(self, record: StepRecord) -> StepRecord:
        """Wait for the missing data, and return the complete record."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRecord:
    """Everything captured in one step; its arrays are not modified once it is passed on.

    Attributes:
        key: key of the step.
        wall_s: Unix time at which the step was closed, seconds.
        optimizers: names of the optimizers that stepped.
        skipped: True when no optimizer applied the step.
        defined: tensors that appear for the first time, with their id.
        tensor_T: uint32, shape (T,): ids of the tensors that have a row.
        summary_TF: float64, shape (T, F): rows of `statistics.summary.FIELDS`.
        scalars: the step's numbers.
        observations: the step's facts.
        raw: tensors that are stored whole; empty in records that were read back (see
            `store.raw_reading`).
        pending: the transfer that rows and bytes of `raw` are waiting for; None in records that
            consumers receive.
    """

    key: StepKey
    wall_s: float
    optimizers: tuple[str, ...] = ()
    skipped: bool = False
    defined: tuple[tuple[int, TensorInfo], ...] = ()
    tensor_T: npt.NDArray[np.uint32]
    summary_TF: npt.NDArray[np.float64]
    scalars: tuple[Scalar, ...] = ()
    observations: tuple[Fact, ...] = ()
    raw: tuple[RawBlock, ...] = ()
    pending: Completion | None = None
