"""Calls of a step that are held until it is over."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall:
    """A call of a layer; `is_data`: it was given what the root was called with.

    `weight` is a copy as the call used it, where the layer is described.
    """

    layer: Any
    given: Any
    gave: Any
    is_data: bool
    weight: Any = None


class Forward(threading.local):
    """State of a thread since its latest step.

    Attributes:
        root: the outermost block that is called while its operations are recorded.
        given: arguments of the latest root.
        trains: it ran in training mode.
        calls: of its layers.
        evaluated: calls of the layers of the evaluation that runs; None where none runs, or
            where nothing of it is captured.
        losses: calls of losses: the block, its arguments, its line.
        heads: mean of what each backward began with, and its line.
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
        """Forget the step."""
        self.latest = self.gave = None
        self.given = ()
        self.calls.clear()
        self.losses.clear()
        self.heads.clear()
