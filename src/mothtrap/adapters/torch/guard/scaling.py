"""Detection of a gradient scaler that controls the next optimizer step."""

from __future__ import annotations

import sys
from types import FrameType

from torch.amp import grad_scaler

_FILE = grad_scaler.__file__


def steps_by_scaler() -> bool:
    """Return whether an active gradient scaler calls `optimizer.step`.

    Determined from the stack, because a scaler's `step` is not wrapped if only objects are watched.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _FILE:
            scaler = frame.f_locals.get("self")
            return isinstance(scaler, grad_scaler.GradScaler) and scaler.is_enabled()
        frame = frame.f_back
    return False
