"""Layer calls of a step, kept until the step ends."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall:
    """A layer call; `is_data`: its input is the input of the root.

    `weight` is a copy from the time of the call, if the layer is described.
    """

    layer: Any
    given: Any
    gave: Any
    is_data: bool
    weight: Any = None


class Forward(threading.local):
    """State of a thread since its latest step.

    Attributes:
        root: outermost block that is called while its operations are recorded.
        given: arguments of the latest root.
        trains: whether it ran in training mode.
        calls: calls of its layers.
        evaluated: layer calls of the evaluation in progress; None if there is none, or if none of
            its data is captured.
        losses: calls of losses, with the block, its arguments, and its line.
        heads: mean starting value of each backward pass, and its line.
    """

    root: Any = None
    latest: Any = None
    given: tuple[Any, ...] = ()
    gave: Any = None
    trains = True
    evaluated: list[LayerCall] | None = None

    def __init__(self) -> None:
        self.calls: list[LayerCall] = []
        self.losses: list[tuple[Any, tuple[Any, ...], str | None]] = []
        self.heads: list[tuple[float, str | None]] = []

    def clear(self) -> None:
        """Discard the step's data."""
        self.latest = self.gave = None
        self.given = ()
        self.calls.clear()
        self.losses.clear()
        self.heads.clear()
