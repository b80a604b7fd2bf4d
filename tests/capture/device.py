"""A device that holds lists of numbers and answers when the test tells it to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
from tests.capture.recording import Arithmetic, Values

from mothtrap.capture.statistics_rows import Rows


class Answer:
    """A transfer in progress: rows, or everything that was sent."""

    def __init__(self, device: SlowDevice, rows: Rows, number: int) -> None:
        self._device, self._rows, self._number = device, rows, number
        self.nbytes = rows.nbytes

    def has_arrived(self) -> bool:
        return self._number <= self._device.arrived

    def rows(self) -> Rows:
        self.wait()
        return self._rows

    def wait(self) -> None:
        if self._device.failing:
            raise RuntimeError(self._device.failing)
        assert self.has_arrived(), "a thread waits that must not"


class SlowDevice:
    """Holds every list of numbers.

    Attributes:
        sent: number of transfers that were started.
        arrived: number of them that have arrived.
        failing: exception that the device raises on every call from now on.
        capturing: whether nothing can be read.
        pinned: bytes of each block of memory that was requested.
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._arithmetic = arithmetic
        self._copies: list[tuple[Values, npt.NDArray[np.uint8]]] = []
        self.sent = self.arrived = 0
        self.failing = ""
        self.capturing = False
        self.pinned: list[int] = []

    def holds(self, tensors: Sequence[Values]) -> bool:
        return True

    def is_capturing(self) -> bool:
        return self.capturing

    def reduce(self, tensors: Sequence[Values], statistics: Collection[str]) -> Answer:
        return Answer(self, self._arithmetic.summarize(tensors, statistics), self.sent + 1)

    def describe(self, tensor: Values) -> tuple[str, tuple[int, ...], int]:
        return self._arithmetic.describe(tensor)

    def copy_bytes(self, tensor: Values, out_N: npt.NDArray[np.uint8]) -> None:
        self._copies.append(([*tensor], out_N))

    def gather_bytes(
        self, tensors: Sequence[Values], begins: Sequence[int], out_N: npt.NDArray[np.uint8]
    ) -> None:
        for tensor, begin in zip(tensors, begins, strict=True):
            self.copy_bytes(tensor, out_N[begin : begin + self.describe(tensor)[2]])

    def memory(self, size: int) -> npt.NDArray[np.uint8]:
        self.pinned.append(size)
        return np.zeros(size, np.uint8)

    def send(self) -> Answer:
        self.sent += 1
        return Answer(self, np.empty(0), self.sent)

    def settle(self) -> None:
        if not self.failing:
            self.let_go()

    def let_go(self) -> None:
        """Let everything that was sent arrive."""
        for tensor, out_N in self._copies:
            self._arithmetic.copy_bytes(tensor, out_N)
        self._copies.clear()
        self.arrived = self.sent
