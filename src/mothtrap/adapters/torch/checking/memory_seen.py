"""Peak memory of this process, or of its tensors on an accelerator, since a point in time."""

from __future__ import annotations

import torch

from mothtrap.adapters.torch.job import devices
from mothtrap.tracing.jobs.process_memory import ProcessMemory


class MemorySeen:
    """Peak memory since this object was created, on an accelerator, or else of the process."""

    def __init__(self) -> None:
        self._on_device = devices.are_in_use()
        self._process = ProcessMemory()
        if self._on_device:
            torch.cuda.reset_peak_memory_stats()

    def now(self) -> tuple[float, float]:
        """Return the peak memory so far, and the available memory, in bytes; NaN if unknown."""
        if not self._on_device:
            return self._process.now()
        whole = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return float(torch.cuda.max_memory_reserved()), float(whole)
