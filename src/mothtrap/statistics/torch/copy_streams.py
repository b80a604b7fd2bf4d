"""Transfers from a device to the host during training, without waiting for either.

Data is copied on a separate stream, after the work that produced it. The last copied value of each
load is a mark, a number that was 0 on the host. When it reads as 1, all data of the load has
arrived. So waiting does not call CUDA: an event query on another thread would break a graph capture
of the training.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch

from mothtrap.statistics.torch.in_place import as_array

MIN_NUMBERS: Final = 1 << 14
"""Smallest block of host memory for numbers: 128 kB, the statistics of 1,800 pieces of tensors."""
FIRST_PAUSE_S: Final = 2e-5
LONGEST_PAUSE_S: Final = 1e-3


class DeviceFailed(RuntimeError):
    """A device failed before it delivered a copy."""


@dataclass(slots=True, eq=False)
class Load:
    """Copies that are transferred together.

    Attributes:
        numbers: float64 on the device, shape (N,) each, stored one after another on the host.
        copies: bytes on the device, with the destination on the host.
        streams: streams that produced the numbers and bytes.
        host: float64 on the host, pinned: the numbers, then the mark; None before it is sent.
        held: objects that must stay alive until the load has arrived.
        failure: reason why the load will never arrive.
    """

    numbers: list[torch.Tensor] = field(default_factory=list)
    copies: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    streams: dict[Any, None] = field(default_factory=dict)
    host: torch.Tensor | None = None
    held: list[Any] = field(default_factory=list)
    failure: str = ""
    _mark: Any = None

    @property
    def size(self) -> int:
        """Return the number of values."""
        return sum(part.numel() for part in self.numbers)

    def addressed(self, host: torch.Tensor) -> torch.Tensor:
        """Set the destination memory; return its mark, set to 0."""
        self.host = host
        mark = host[self.size : self.size + 1]
        mark.zero_()
        self._mark = as_array(mark)
        return mark

    def has_arrived(self) -> bool:
        """Return whether all data is on the host."""
        return self._mark is not None and bool(self._mark[0] == 1.0)

    def wait(self) -> None:
        """Wait until all data is on the host.

        Raises:
            DeviceFailed: the load will never arrive.
        """
        pause_s = FIRST_PAUSE_S
        while not self.has_arrived():
            if self.failure:
                raise DeviceFailed(self.failure)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def release(self) -> None:
        """Release the device memory after the load has arrived."""
        for parts in (self.numbers, self.copies, self.held):
            parts.clear()


class CopyStream(Protocol):
    """Transfers the loads of one device to the host, in order."""

    def here(self) -> AbstractContextManager[Any]:
        """Make the device current."""

    def stream(self) -> Any:
        """Return the stream of the training's operations on this device."""

    def numbers(self, size: int) -> torch.Tensor:
        """Return host memory that the device can write to: float64, at least `size` elements."""

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """Copy the content of `numbers` to the device, ordered with the training's operations."""

    def carry(self, load: Load) -> None:
        """Start to copy a load to the host; its mark becomes 1 at the end.

        Raises:
            RuntimeError: the device has failed.
        """

    def settle(self) -> None:
        """Wait until all loads have arrived.

        Raises:
            RuntimeError: the device has failed.
        """


class CudaCopyStream:
    """Copy stream of a CUDA (or ROCm) device, with its own stream and pinned memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool: list[torch.Tensor] = []
        with torch.cuda.stream(self._side):
            self._one = torch.ones(1, dtype=torch.float64, device=device)

    def here(self) -> AbstractContextManager[Any]:
        """See `CopyStream`."""
        found: AbstractContextManager[Any] = torch.cuda.device(self._device)
        return found

    def stream(self) -> Any:
        """See `CopyStream`."""
        return torch.cuda.current_stream(self._device)

    def numbers(self, size: int) -> torch.Tensor:
        """See `CopyStream`; memory is reused once nothing refers to it."""
        idle = [kept for kept in self._pool if sys.getrefcount(kept) == _IDLE]
        fitting = [kept for kept in idle if kept.numel() >= size]
        if fitting:
            return min(fitting, key=len)
        length = max(MIN_NUMBERS, 1 << (size - 1).bit_length())
        # It must not be created on the user's default device.
        made = torch.empty(length, dtype=torch.float64, device="cpu", pin_memory=True)
        self._pool.append(made)
        del made
        return self._pool[-1]

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """See `CopyStream`."""
        return host.to(self._device, non_blocking=True)

    def carry(self, load: Load) -> None:
        """See `CopyStream`."""
        for stream in load.streams:
            self._side.wait_stream(stream)
        with torch.cuda.stream(self._side):
            host = self.numbers(load.size + 1)
            mark = load.addressed(host)
            if load.numbers:
                # Operations that can fail come first, so that no part of a failed load is in
                # transfer.
                joined = torch.cat(load.numbers) if len(load.numbers) > 1 else load.numbers[0]
                load.held.append(joined)
                host[: load.size].copy_(joined, non_blocking=True)
            for source, target in load.copies:
                target.copy_(source, non_blocking=True)
            mark.copy_(self._one, non_blocking=True)

    def settle(self) -> None:
        """See `CopyStream`."""
        self._side.synchronize()


def pinned(size: int) -> torch.Tensor:
    """Return host memory that a CUDA device can write to, uint8, shape (size,)."""
    return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)


# References from the list that contains a block, and from the counting itself.
_IDLE = [sys.getrefcount(kept) for kept in [torch.empty(1)]][0]  # noqa: RUF015
