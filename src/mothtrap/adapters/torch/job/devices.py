"""Capture from CUDA devices without waiting, once the process uses a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mothtrap.statistics.torch.accelerator import Accelerator

if TYPE_CHECKING:
    from mothtrap.tracing.jobs.adapter_job import AdapterJob


def are_in_use() -> bool:
    """Return whether the process has started to use devices."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def use_devices(job: AdapterJob) -> None:
    """Connect the recorder of a job to the devices in use.

    Most machines have a CUDA build but no device. Querying a device raises an exception there, and
    elsewhere would use device memory.
    """
    rows = job.recorder.captures.rows
    if rows.device is None and are_in_use():
        rows.device, rows.reducer = Accelerator(), job.arrays
