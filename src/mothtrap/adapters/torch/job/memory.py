"""Memory of a training process, and losses that are kept in memory with their graphs."""

from __future__ import annotations

import os
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from mothtrap.core.facts.memory import LossesKept

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

MEMORY_EVERY = 10
"""Steps between two readings of the memory; a reading takes tens of microseconds."""
LOSSES_EVERY = 50
LOSSES_LOOKED_AT = 500
LOSSES_REPORTED = 50
"""Number of kept losses that is reported; rules evaluate it."""

_KEY = "mothtrap"


class _Mark:
    """Lives as long as the graph node whose metadata contains it."""

    __slots__ = ("__weakref__",)


class MemoryObserver:
    """Samples the memory in use, and marks the graph of every loss.

    A loss that is kept alive, and a sum to which it was added, keep the node of its graph alive. A
    mark in the metadata of the node (which PyTorch provides for users and anomaly detection) shows
    this without keeping anything alive.
    """

    def __init__(self, job: Job) -> None:
        self._notes = job.recorder.notes
        self._marks: deque[weakref.ref[_Mark]] = deque(maxlen=LOSSES_LOOKED_AT)
        self._place: str | None = None
        self._page_bytes = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0

    def loss_began(self, loss: BackwardRoot) -> None:
        """Mark the graph of a loss."""
        metadata = getattr(loss.root.grad_fn, "metadata", None)
        if not isinstance(metadata, dict) or _KEY in metadata:
            return
        mark = metadata[_KEY] = _Mark()
        self._marks.append(weakref.ref(mark))
        self._place = loss.place

    def closed(self, step: int) -> None:
        """Handle the end of a step."""
        if step % MEMORY_EVERY == 0:
            self._read_memory()
        if (step + 1) % LOSSES_EVERY == 0:
            self._count_losses(step)

    def _read_memory(self) -> None:
        with suppress(OSError, ValueError):
            with open("/proc/self/statm", encoding="ascii") as file:  # Linux
                pages = int(file.read().split()[1])
            self._notes.scalar("memory_bytes", "process", float(pages * self._page_bytes))
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            for device in range(torch.cuda.device_count()):
                used = torch.cuda.memory_allocated(device)
                if used:
                    self._notes.scalar("memory_bytes", f"cuda:{device}", float(used))

    def _count_losses(self, step: int) -> None:
        kept = 0
        for mark in reversed(self._marks):
            if mark() is None:
                break
            kept += 1
        if kept >= LOSSES_REPORTED:
            more = kept == LOSSES_LOOKED_AT
            self._notes.observe(LossesKept(step=step, kept=kept, more=more, location=self._place))
