"""Numbers of a step that are on a device, recorded when they arrive on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from mothtrap.capture.recorder import Recorder


def add_scalar(
    recorder: Recorder[torch.Tensor], name: str, of: str, value: torch.Tensor | float
) -> None:
    """Add a number to the step in progress without waiting for its device.

    Args:
        recorder: recorder of the step.
        name: name of the number, see `core.records.Scalar`.
        of: its owner.
        value: the number; a tensor of one element is read immediately, and not kept.
    """
    device = recorder.captures.rows.device
    if device is not None and isinstance(value, torch.Tensor) and device.holds([value]):
        recorder.captures.rows.add_number(name, of, device.bring(value))
    else:
        recorder.notes.scalar(name, of, float(value))


def scale_of(scaler: Any) -> torch.Tensor | float:
    """Return the scale of a gradient scaler, on its device."""
    # private API, because `get_scale()` waits for the device
    scale = getattr(scaler, "_scale", None)
    return scale if isinstance(scale, torch.Tensor) else float(scaler.get_scale())
