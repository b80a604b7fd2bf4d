"""Numbers and distributions computed from copies of tensors, off the training thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mothtrap.capture.containment import Containment
from mothtrap.capture.selection import RAW
from mothtrap.capture.tensor_registry import Tensors
from mothtrap.core.collections import Reduction
from mothtrap.core.fact import Fact
from mothtrap.core.records import RawBlock, Scalar, StepRecord
from mothtrap.statistics.distribution import DISTRIBUTIONS
from mothtrap.statistics.dtypes import array_of

Array = npt.NDArray[Any]
_Copy = tuple[int, str, tuple[int, ...], npt.NDArray[np.uint8]]
"""Id, element type, shape and bytes of a tensor."""


class Reductions:
    """Replaces copies with the data derived from them.

    A copy that is not to be stored is removed once its derived data has been computed. The result
    of a function becomes a scalar of the tensor, under the function's name; a distribution becomes
    a tensor. A function that fails is switched off and reported.

    Args:
        tensors: tensors of the copies.
        functions: name and function, by purpose in `RawBlock.purposes`.
        containment: notified of a function that fails.
    """

    def __init__(
        self,
        tensors: Tensors,
        functions: Callable[[], Mapping[str, tuple[str, Reduction]]],
        containment: Containment,
    ) -> None:
        self._tensors, self._functions, self._containment = tensors, functions, containment

    def work_out(self, records: Sequence[StepRecord]) -> list[StepRecord]:
        """Return the records with the requested data in place of their copies."""
        return [
            self._work_out(record) if any(block.purposes for block in record.raw) else record
            for record in records
        ]

    def _work_out(self, record: StepRecord) -> StepRecord:
        scalars: list[Scalar] = []
        observations: list[Fact] = []
        kept: list[RawBlock] = []
        found: list[_Copy] = []
        for block in record.raw:
            if not block.purposes:
                kept.append(block)
                continue
            copies = list(_copies(block))
            for copy, purpose in zip(copies, block.purposes, strict=True):
                array = _array(copy)
                for name in sorted(purpose - {RAW}):
                    if name in DISTRIBUTIONS:
                        found.append(self._distribution(copy[0], name, array))
                    else:
                        self._reduce(copy[0], name, array, record.key.step, scalars, observations)
            wanted = [RAW in purpose for purpose in block.purposes]
            if all(wanted):
                kept.append(replace(block, purposes=()))
            elif any(wanted):
                kept.append(_block([c for c, w in zip(copies, wanted, strict=True) if w]))
        if found:
            kept.append(_block(found))
        return replace(
            record,
            raw=tuple(kept),
            scalars=(*record.scalars, *scalars),
            observations=(*record.observations, *observations),
        )

    def _distribution(self, tensor_id: int, name: str, array: Array) -> _Copy:
        with np.errstate(all="ignore"):
            result = np.ascontiguousarray(DISTRIBUTIONS[name](array))
        number = self._tensors.derived(tensor_id, name)
        return number, result.dtype.name, result.shape, result.reshape(-1).view(np.uint8)

    def _reduce(
        self,
        tensor_id: int,
        name: str,
        array: Array,
        step: int,
        scalars: list[Scalar],
        observations: list[Fact],
    ) -> None:
        found, part = self._functions().get(name), f"reduction {name}"
        if found is None or self._containment.is_off(part):
            return
        label, function = found
        try:
            value = float(function(array))
        except Exception as err:  # a function of the user may raise anything
            failure = self._containment.report(part, err, step=step)
            if failure is not None:
                observations.append(failure)
            return
        scalars.append(Scalar(label, self._tensors[tensor_id].identity, value))


class Queue(Protocol):
    """A queue for finished steps."""

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Add a record."""

    def close(self, timeout_s: float = 30.0) -> bool:
        """Let the consumer finish; return False on timeout."""


class ReducedFirst:
    """Reduces copies on a thread before records reach a sink that cannot do so.

    It also waits there for data in transfer from a device. Without such requests, all copies are
    stored as they are, without a thread and without cost.

    Args:
        sink: receives the records.
        channel: creates a queue to a consumer.
        reductions: computes them.
    """

    def __init__(
        self,
        sink: Queue,
        channel: Callable[[Callable[[Sequence[StepRecord]], None]], Queue],
        reductions: Reductions,
    ) -> None:
        self._sink, self._make_channel, self._reductions = sink, channel, reductions
        self._channel: Queue | None = None

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Pass on a record."""
        unfinished = record.pending is not None or any(block.purposes for block in record.raw)
        if self._channel is None and unfinished:
            self._channel = self._make_channel(self._consume)
        (self._channel or self._sink).put(record, urgent=urgent)

    def close(self, timeout_s: float = 30.0) -> bool:
        """Process everything that waits; return False on timeout."""
        worked_out = self._channel is None or self._channel.close(timeout_s)
        return self._sink.close(timeout_s) and worked_out

    def _consume(self, records: Sequence[StepRecord]) -> None:
        for record in self._reductions.work_out(records):
            self._sink.put(record)


def _copies(block: RawBlock) -> Iterator[_Copy]:
    ends = zip(block.offset_R[:-1].tolist(), block.offset_R[1:].tolist(), strict=True)
    rows = zip(block.tensor_R.tolist(), block.dtypes, block.shapes, ends, strict=True)
    for number, dtype, shape, (start, end) in rows:
        yield number, dtype, shape, block.bytes_N[start:end]


def _array(copy: _Copy) -> Array:
    """Return a copy as a read-only array, because the copy may still be stored."""
    array: Array = array_of(copy[3], copy[1]).reshape(copy[2])
    array.setflags(write=False)
    return array


def _block(copies: Sequence[_Copy]) -> RawBlock:
    sizes = [len(data) for *_, data in copies]
    return RawBlock(
        tensor_R=np.array([number for number, *_ in copies], np.uint32),
        dtypes=tuple(dtype for _, dtype, *_ in copies),
        shapes=tuple(shape for _, _, shape, _ in copies),
        offset_R=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        bytes_N=np.concatenate([data for *_, data in copies]),
    )
