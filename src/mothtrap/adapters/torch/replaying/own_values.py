"""Values that an edited script computes itself from the recorded batch.

An unchanged script computes the recorded values. An edited script may differ on purpose: it may
clip a weight or clean its inputs before it calls the model. Then its own values must be used in the
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

_ABSENT = object()


class OwnValues:
    """Variables that were assigned since a frame of the edited script got the recorded batch."""

    def __init__(self) -> None:
        self._frame: FrameType | None = None
        self._before: dict[str, Any] = {}

    def begin(self, frame: FrameType | None) -> None:
        """Record the variables of a frame that is about to get the recorded batch."""
        self._frame = frame
        self._before = dict(frame.f_locals) if frame is not None else {}

    def computes(self, frame: FrameType | None) -> bool:
        """Return whether this frame of an edited script got the recorded batch."""
        return frame is not None and frame is self._frame

    def without(self, recorded: Mapping[str, Any], frame: FrameType) -> dict[str, Any]:
        """Return recorded variables, without those that the frame has assigned since then."""
        if not self.computes(frame):
            return dict(recorded)
        now = frame.f_locals
        return {
            name: value
            for name, value in recorded.items()
            if now.get(name, _ABSENT) is self._before.get(name, _ABSENT)
        }
