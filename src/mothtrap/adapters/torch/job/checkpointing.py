"""Reentrant checkpointing: a segment runs first without autograd, and again in the backward pass.

The other kind (`use_reentrant=False`) needs no special handling, because its first run creates the
graph.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from torch.utils.checkpoint import CheckpointFunction

# Both names are private, and covered by the tests of this file.
_FORWARD: CodeType = CheckpointFunction.forward.__code__
_BACKWARD: CodeType = CheckpointFunction.backward.__code__


def in_first_run() -> bool:
    """Return whether the running code is a checkpointed segment in its first forward pass."""
    frame = _frame_of(_FORWARD)
    # Its inputs require gradients; in an evaluation they do not.
    return frame is not None and any(frame.f_locals["ctx"].needs_input_grad)


def in_idle_run() -> bool:
    """Return whether the running code is a segment whose inputs want no gradients.

    Then no backward pass runs it again, and its parameters get no gradients.
    """
    frame = _frame_of(_FORWARD)
    return frame is not None and not any(frame.f_locals["ctx"].needs_input_grad)


def in_backward_of_segment() -> bool:
    """Return whether a segment runs its own backward pass inside the outer one."""
    return _frame_of(_BACKWARD) is not None


def _frame_of(code: CodeType) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame
