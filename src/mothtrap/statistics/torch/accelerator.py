"""Statistics and copies of tensors on devices, without waiting for a device.

What is asked for is put on the training's own stream at once, so it is of the values that the
tensor has there and then, whatever an optimizer does to them next; nothing of the user's is
held. `send` begins to bring over, in one load for each device, all that was asked for since the
last time; whoever needs it waits for it, on whatever thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.core.error_texts import in_one_line
from mothtrap.statistics.segments import constant_row
from mothtrap.statistics.summary import EMPTY, Floats, columns_for, merge
from mothtrap.statistics.torch.copy_streams import (
    CopyStream,
    CudaCopyStream,
    DeviceFailed,
    Load,
    pinned,
)
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.pieces import (
    Pieces,
    merged,
    reduce_by_kernel,
    reduce_by_operations,
)
from mothtrap.statistics.torch.plain import flat_elements, local
from mothtrap.statistics.torch.raw import describe
from mothtrap.statistics.torch.rows import summarize

Bytes = npt.NDArray[np.uint8]
_CAPTURING: Final = "it is capturing a graph, and has no values"


class Accelerator:
    """All devices of one kind that a process trains on.

    Belongs to the training thread; what it returns may be asked from any.

    Attributes:
        slow_because: why operations of torch take the place of the kernel, if they do.

    Args:
        kind: of device.
        lane: makes the lane of a device.
        memory: host memory of so many bytes that the devices can write to.
        capturing: whether what is put on the current stream is kept in a graph, and not done.
        fused: whether to use the kernel.
    """

    def __init__(
        self,
        kind: str = "cuda",
        copy_stream: Callable[[torch.device], CopyStream] = CudaCopyStream,
        memory: Callable[[int], torch.Tensor] = pinned,
        capturing: Callable[[], bool] = torch.cuda.is_current_stream_capturing,
        *,
        fused: bool = True,
    ) -> None:
        self._kind, self._make_copy_stream, self._memory = kind, copy_stream, memory
        self._capturing = capturing
        self._copy_streams: dict[torch.device, CopyStream] = {}
        self._open: dict[torch.device, Load] = {}
        self._sent: list[Load] = []
        self._fused = fused
        self.slow_because = ""

    def holds(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether tensors are to be reduced here; the first decides: it is asked often."""
        return bool(tensors) and tensors[0].device.type == self._kind

    def is_capturing(self) -> bool:
        """Return whether a graph is being captured: nothing can be read then, and nothing sent."""
        return self._capturing()

    def reduce(self, tensors: Sequence[torch.Tensor], statistics: Collection[str]) -> PendingRows:
        """Begin to reduce each tensor to one row, as `summarize` does.

        One launch for all tensors of a type, several for those that no kernel takes.

        Args:
            tensors: as for `summarize`; those of another kind of device are reduced at once.
            statistics: ids out of `summary.STATISTICS`.

        Raises:
            UnknownNameError: there is no such statistic; names the nearest.
        """
        columns = columns_for(statistics)
        pending = PendingRows(np.tile(constant_row(0, columns), (len(tensors), 1)), columns)
        flats: dict[torch.device, dict[int, torch.Tensor]] = {}
        with _own_tensors():
            for key, tensor in enumerate(tensors):
                if tensor.is_meta:
                    pending.fill(key, EMPTY)
                elif tensor.device.type != self._kind:
                    pending.fill(key, summarize([tensor], statistics)[0])
                else:
                    flat, zeros = flat_elements(tensor)
                    if flat.is_floating_point() and flat.element_size() == 1:
                        flat = flat.to(torch.float32)
                    pending.add_zeros(key, zeros)
                    if flat.numel():
                        flats.setdefault(flat.device, {})[key] = flat
            for device, own in flats.items():
                if columns & {"nan", "zero"}:
                    self._reduce(device, own, columns, pending)
                else:
                    for key, flat in own.items():
                        pending.fill(key, constant_row(flat.numel(), columns))
        return pending

    def describe(self, tensor: torch.Tensor) -> tuple[str, tuple[int, ...], int]:
        """Return element type, shape and number of bytes of a tensor, dense."""
        return describe(tensor)

    def copy_bytes(self, tensor: torch.Tensor, out_N: Bytes) -> None:
        """Begin to write a tensor in C order; `out_N` is filled when the next load has arrived.

        A copy on the device is made first, since the training may change the tensor next.

        Args:
            tensor: of any layout.
            out_N: uint8, of as many bytes as `describe` says, of what `memory` gave.

        Raises:
            torch.OutOfMemoryError: the device has no room for the copy.
        """
        if not out_N.size:
            return
        with _own_tensors():
            values = local(tensor)
            if values.is_quantized:
                values = values.dequantize()
            if values.layout is not torch.strided:
                values = values.to_dense()
            own = values.resolve_conj().resolve_neg()
            own = own.clone(memory_format=torch.contiguous_format)
            load = self._load(tensor.device)
            load.copies.append((own.reshape(-1).view(torch.uint8), torch.from_numpy(out_N)))

    def gather_bytes(
        self, tensors: Sequence[torch.Tensor], begins: Sequence[int], out_N: Bytes
    ) -> None:
        """Begin to write many tensors as `copy_bytes` does, each from a place of `out_N` on."""
        for tensor, begin in zip(tensors, begins, strict=True):
            self.copy_bytes(tensor, out_N[begin : begin + self.describe(tensor)[2]])

    def memory(self, size: int) -> Bytes:
        """Host memory that the devices can write to, uint8, shape (size,)."""
        return as_array(self._memory(size))

    def bring(self, number: torch.Tensor) -> PendingNumber:
        """Begin to bring a tensor of one element over, in a load of its own.

        Whoever waits for it waits for what was put on the stream before, and nothing after.
        """
        if self.is_capturing():
            return PendingNumber(Load(failure=_CAPTURING))
        with _own_tensors():
            device = number.device
            load = Load(numbers=[number.detach().reshape(1).to(torch.float64, copy=True)])
            load.streams[self._copy_stream(device).stream()] = None
            self._carry(device, load)
        return PendingNumber(load)

    def send(self) -> Flight:
        """Begin to bring over all that was asked for; return all that is on its way.

        While a graph is being captured nothing is sent: that is left to the next call.
        """
        if self.is_capturing():
            return Flight([*self._sent, *self._open.values()])
        # A load that failed is told of once more: it may have gone before its step's end.
        failed = [load for load in self._sent if load.failure]
        self._sent = [load for load in self._sent if not _is_over(load)]
        loads, self._open = self._open, {}
        with _own_tensors():
            for device, load in loads.items():
                self._carry(device, load)
        return Flight([*failed, *self._sent])

    def settle(self) -> None:
        """Wait, at the end, for all that is on its way; what a failed device has is given up."""
        try:
            self.send()
            for copy_stream in self._copy_streams.values():
                copy_stream.settle()
        except RuntimeError as err:
            for load in self._sent:
                load.failure = load.failure or str(err)
        for load in self._open.values():
            load.failure = _CAPTURING

    def _reduce(
        self,
        device: torch.device,
        flats: dict[int, torch.Tensor],
        columns: frozenset[str],
        pending: PendingRows,
    ) -> None:
        load, copy_stream = self._load(device), self._copy_stream(device)
        others = flats
        with copy_stream.here():
            if self._fused:
                try:
                    pieces, others = reduce_by_kernel(
                        flats, lambda t: _uploaded(copy_stream, load, t)
                    )
                    pending.expect(load, pieces, self.send)
                except Exception as err:  # whatever a compiler raises
                    self._fused, self.slow_because = False, in_one_line(err)
            if others:
                pending.expect(load, reduce_by_operations(others, columns), self.send)

    def _copy_stream(self, device: torch.device) -> CopyStream:
        copy_stream = self._copy_streams.get(device)
        if copy_stream is None:
            copy_stream = self._copy_streams[device] = self._make_copy_stream(device)
        return copy_stream

    def _load(self, device: torch.device) -> Load:
        """The load that is sent next, with the stream in use noted."""
        load = self._open.get(device)
        if load is None:
            load = self._open[device] = Load()
        load.streams[self._copy_stream(device).stream()] = None
        return load

    def _carry(self, device: torch.device, load: Load) -> None:
        self._sent.append(load)
        try:
            self._copy_stream(device).carry(load)
        except RuntimeError as err:
            load.failure = str(err)


class PendingRows:
    """Rows of statistics on their way from a device.

    Args:
        rows_TF: float64, shape (T, F): what is known at once.
        columns: the columns wanted of the rest.
    """

    def __init__(self, rows_TF: Floats, columns: frozenset[str]) -> None:
        self._rows_TF, self._columns = rows_TF, columns
        self._zeros: dict[int, int] = {}
        self._parts: list[tuple[Load, int, Pieces]] = []
        self._send: Callable[[], Any] | None = None
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return int(self._rows_TF.nbytes)

    def fill(self, key: int, row_F: Floats) -> None:
        """Set a row that is known."""
        self._rows_TF[key] = row_F

    def add_zeros(self, key: int, count: int) -> None:
        """Note zeros that a sparse tensor leaves out."""
        if count:
            self._zeros[key] = count

    def expect(self, load: Load, pieces: Pieces, send: Callable[[], Any]) -> None:
        """Note that the next results of a load are those of some pieces; begins to hold them.

        Args:
            load: on which they go over.
            pieces: what was reduced.
            send: has the load sent, for whoever cannot wait until it is.
        """
        if pieces.results:
            self._parts.append((load, load.size, pieces))
            self._send = send
            load.numbers += pieces.results
            pieces.results = []

    def has_arrived(self) -> bool:
        """Return whether `rows` would not wait."""
        return all(load.has_arrived() for load, _, _ in self._parts)

    def rows(self) -> Floats:
        """Wait for the rows and return them, float64, shape (T, F).

        Before they were sent only the training thread may ask: then they are.

        Raises:
            DeviceFailed: the device failed before they came.
        """
        with self._lock:
            for load, begin, pieces in self._parts:
                if load.host is None and not load.failure and self._send is not None:
                    self._send()
                load.wait()
                end = begin + 9 * len(pieces.owners)
                keys, rows_TF = merged(_host(load, begin, end), pieces, self._columns)
                self._rows_TF[keys] = rows_TF
            self._parts = []
            for key, count in self._zeros.items():
                both = np.stack([self._rows_TF[key], constant_row(count, self._columns)])
                self._rows_TF[key] = merge(both)
            self._zeros = {}
            return self._rows_TF


class PendingNumber:
    """One number on its way from a device."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def __float__(self) -> float:
        """Wait for the number and return it.

        Raises:
            DeviceFailed: the device failed before it came.
        """
        self._load.wait()
        return float(_host(self._load, 0, 1)[0])


class Flight:
    """All that was on its way at one moment."""

    def __init__(self, loads: Sequence[Load]) -> None:
        self._loads = [*loads]

    def has_arrived(self) -> bool:
        """Return whether `wait` would not wait."""
        return all(load.has_arrived() for load in self._loads)

    def wait(self) -> None:
        """Wait until all of it is on the host.

        Raises:
            DeviceFailed: a device failed before it came.
        """
        for load in self._loads:
            load.wait()


def _host(load: Load, begin: int, end: int) -> Floats:
    if load.host is None:
        raise DeviceFailed(load.failure or "it was never sent")
    found: Floats = as_array(load.host[begin:end]).copy()
    return found


def _uploaded(copy_stream: CopyStream, load: Load, table: npt.NDArray[np.int64]) -> torch.Tensor:
    """Bring a table to the device from memory that stays until the load has arrived."""
    host = copy_stream.numbers(table.size)
    load.held.append(host)
    own = host[: table.size].view(torch.int64)
    as_array(own)[:] = table.reshape(-1)
    return copy_stream.upload(own)


@contextmanager
def _own_tensors() -> Iterator[None]:
    """Makes tensors that can be written to later, whatever mode the user is in."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def _is_over(load: Load) -> bool:
    """Return whether nothing of a load is on its way any more.

    Then it holds nothing on the device.
    """
    over = load.has_arrived() or bool(load.failure)
    if over:
        load.release()
    return over
