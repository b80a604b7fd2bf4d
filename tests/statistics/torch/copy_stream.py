"""A device for tests: the CPU, with loads that arrive when the test says so."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from mothtrap.statistics.torch.copy_streams import Load


class SlowCopyStream:
    """Carries loads in order, each when it is released.

    Attributes:
        waiting: loads that were sent and have not arrived.
        sent: how many loads were sent.
        failing: exception that the device raises on every call from now on.
        current: the stream that the training uses.
        capturing: whether a graph is being captured.
        at_once: whether loads arrive immediately.
        numbers_at_once: whether loads of a single number arrive immediately.
    """

    def __init__(self, device: torch.device) -> None:
        self.waiting: list[tuple[Load, torch.Tensor]] = []
        self.sent = 0
        self.failing = ""
        self.current = "main"
        self.capturing = False
        self.at_once = self.numbers_at_once = False

    def here(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def stream(self) -> Any:
        return self.current

    def numbers(self, size: int) -> torch.Tensor:
        # what other tests have left there
        return torch.full((size + 3,), 77.0, dtype=torch.float64)

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        return host.clone()

    def carry(self, load: Load) -> None:
        if self.failing:
            raise RuntimeError(self.failing)
        self.sent += 1
        self.waiting.append((load, load.addressed(self.numbers(load.size + 1))))
        if self.at_once:
            self.let_go()
        elif self.numbers_at_once and load.size == 1:
            _arrive(*self.waiting.pop())

    def let_go(self, loads: int | None = None) -> None:
        """Let everything that was sent arrive, or only the oldest."""
        for load, mark in self.waiting[:loads]:
            _arrive(load, mark)
        del self.waiting[:loads]

    def settle(self) -> None:
        if self.failing:
            raise RuntimeError(self.failing)
        self.let_go()


def _arrive(load: Load, mark: torch.Tensor) -> None:
    assert load.host is not None
    if load.numbers:
        load.host[: load.size] = torch.cat(load.numbers)
    for source, target in load.copies:
        target.copy_(source)
    mark.fill_(1.0)


def host_memory(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)
