"""Statistics and copies of tensors on devices, without waiting for a device.

A reduction is queued immediately on the stream of the training, so it reads the current values of
the tensor, even if an optimizer changes them next. No tensor of the user is kept. `send` starts to
transfer all results since the last call, in one load per device. The code that needs a result waits
for it, on any thread.
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
    """All devices of one type on which a process trains.

    Used on the training thread; results may be used on any thread.

    Attributes:
        slow_because: why torch operations replace the kernel, if they do.

    Args:
        kind: kind of device.
        lane: creates the copy stream of a device.
        memory: allocates host memory of this size to which the devices can write.
        capturing: whether work on the current stream is captured in a graph instead of being
            executed.
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
        """Return whether tensors are reduced here; only the first tensor is checked, for speed."""
        return bool(tensors) and tensors[0].device.type == self._kind

    def is_capturing(self) -> bool:
        """Return whether a graph is being captured, so that nothing can be read or sent."""
        return self._capturing()

    def reduce(self, tensors: Sequence[torch.Tensor], statistics: Collection[str]) -> PendingRows:
        """Start to reduce each tensor to one row, as `summarize` does.

        This takes one launch for all tensors of a type, and several for tensors that no kernel
        supports.

        Args:
            tensors: as for `summarize`; those on another kind of device are reduced immediately.
            statistics: ids out of `summary.STATISTICS`.

        Raises:
            UnknownNameError: there is no such statistic; the message suggests one.
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
        """Start to write a tensor in C order; `out_N` is filled when the next load has arrived.

        A copy on the device is made first, because the training may change the tensor soon.

        Args:
            tensor: tensor of any layout.
            out_N: uint8 memory from `memory`, with the size that `describe` returns.

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
        """Start to write several tensors like `copy_bytes`, each from an offset in `out_N`."""
        for tensor, begin in zip(tensors, begins, strict=True):
            self.copy_bytes(tensor, out_N[begin : begin + self.describe(tensor)[2]])

    def memory(self, size: int) -> Bytes:
        """Return host memory that the devices can write to, uint8, shape (size,)."""
        return as_array(self._memory(size))

    def bring(self, number: torch.Tensor) -> PendingNumber:
        """Start to transfer a one-element tensor in its own load.

        Waiting for it only waits for work that was queued on the stream earlier.
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
        """Start to transfer everything queued; return all transfers in progress.

        While a graph is being captured, nothing is sent until the next call.
        """
        if self.is_capturing():
            return Flight([*self._sent, *self._open.values()])
        # A failed load is reported again, because it may have been sent before the end of its step.
        failed = [load for load in self._sent if load.failure]
        self._sent = [load for load in self._sent if not _is_over(load)]
        loads, self._open = self._open, {}
        with _own_tensors():
            for device, load in loads.items():
                self._carry(device, load)
        return Flight([*failed, *self._sent])

    def settle(self) -> None:
        """Wait for all transfers at the end, discarding the data of failed devices."""
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
                except Exception as err:  # a compiler may raise anything
                    self._fused, self.slow_because = False, in_one_line(err)
            if others:
                pending.expect(load, reduce_by_operations(others, columns), self.send)

    def _copy_stream(self, device: torch.device) -> CopyStream:
        copy_stream = self._copy_streams.get(device)
        if copy_stream is None:
            copy_stream = self._copy_streams[device] = self._make_copy_stream(device)
        return copy_stream

    def _load(self, device: torch.device) -> Load:
        """Return the load that is sent next, with the current stream recorded."""
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
    """Rows of statistics that are being transferred from a device.

    Args:
        rows_TF: float64, shape (T, F): values that are known immediately.
        columns: requested columns of the other values.
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
        """Set a known row."""
        self._rows_TF[key] = row_F

    def add_zeros(self, key: int, count: int) -> None:
        """Add the implicit zeros of a sparse tensor."""
        if count:
            self._zeros[key] = count

    def expect(self, load: Load, pieces: Pieces, send: Callable[[], Any]) -> None:
        """Register the next results of a load for some pieces.

        Args:
            load: load that transfers them.
            pieces: the reduced pieces.
            send: sends the load, for callers that cannot wait until it is sent.
        """
        if pieces.results:
            self._parts.append((load, load.size, pieces))
            self._send = send
            load.numbers += pieces.results
            pieces.results = []

    def has_arrived(self) -> bool:
        """Return whether `rows` would return immediately."""
        return all(load.has_arrived() for load, _, _ in self._parts)

    def rows(self) -> Floats:
        """Wait for the rows, and return them, float64, shape (T, F).

        Before they are sent, only the training thread may call this, which sends them.

        Raises:
            DeviceFailed: the device failed before they arrived.
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
    """One number that is being transferred from a device."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def __float__(self) -> float:
        """Wait for the number and return it.

        Raises:
            DeviceFailed: the device failed before it arrived.
        """
        self._load.wait()
        return float(_host(self._load, 0, 1)[0])


class Flight:
    """All transfers in progress at one moment."""

    def __init__(self, loads: Sequence[Load]) -> None:
        self._loads = [*loads]

    def has_arrived(self) -> bool:
        """Return whether `wait` would return immediately."""
        return all(load.has_arrived() for load in self._loads)

    def wait(self) -> None:
        """Wait until all data is on the host.

        Raises:
            DeviceFailed: a device failed before the data arrived.
        """
        for load in self._loads:
            load.wait()


def _host(load: Load, begin: int, end: int) -> Floats:
    if load.host is None:
        raise DeviceFailed(load.failure or "it was never sent")
    found: Floats = as_array(load.host[begin:end]).copy()
    return found


def _uploaded(copy_stream: CopyStream, load: Load, table: npt.NDArray[np.int64]) -> torch.Tensor:
    """Copy a table to the device from memory that exists until the load has arrived."""
    host = copy_stream.numbers(table.size)
    load.held.append(host)
    own = host[: table.size].view(torch.int64)
    as_array(own)[:] = table.reshape(-1)
    return copy_stream.upload(own)


@contextmanager
def _own_tensors() -> Iterator[None]:
    """Create tensors that can be written to later, regardless of the user's mode."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def _is_over(load: Load) -> bool:
    """Return whether no part of a load is in transfer any more.

    Then it uses no memory on the device.
    """
    over = load.has_arrived() or bool(load.failure)
    if over:
        load.release()
    return over
