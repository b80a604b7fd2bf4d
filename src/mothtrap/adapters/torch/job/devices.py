"""Tensors on CUDA devices are read without waiting, from when the process uses one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mothtrap.statistics.torch.accelerator import Accelerator

if TYPE_CHECKING:
    from mothtrap.tracing.adapter_job import AdapterJob


def are_in_use() -> bool:
    """Return whether the process has begun to use devices."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def use_devices(job: AdapterJob) -> None:
    """Give the recorder of a job the devices of the process, if these are in use.

    Most machines have a build for CUDA and no device: to ask one there raises, and
    elsewhere it would take memory of the device.
    """
    rows = job.recorder.captures.rows
    if rows.device is None and are_in_use():
        rows.device, rows.reducer = Accelerator(), job.arrays
