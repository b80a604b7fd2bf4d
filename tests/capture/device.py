"""A device of lists of numbers, whose answers come when the test says so."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
from tests.capture.recording import Arithmetic, Values

from mothtrap.capture.statistics_rows import Rows


class Answer:
    """Something on its way: rows, or all that was sent."""

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
        sent: how often something was sent.
        arrived: how many of these have arrived.
        failing: what the device says to everything from now on.
        capturing: whether nothing can be read.
        pinned: bytes of each piece of memory that was asked for.
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
        """Let all that was sent arrive."""
        for tensor, out_N in self._copies:
            self._arithmetic.copy_bytes(tensor, out_N)
        self._copies.clear()
        self.arrived = self.sent
