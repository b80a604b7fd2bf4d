"""Inspections of the losses at each line with a backward pass: a few, early in the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from mothtrap.adapters.torch.job.observers import BackwardRoot

LOOK_AT = (1, 3, 5, 8, 12)
"""Backward passes of a line at which its loss is inspected; after the last one it is reported."""
MAX_LINES = 16
"""Maximum number of inspected lines with a backward pass."""


@dataclass(slots=True)
class Line:
    """Backward passes of one line so far, and the sampled ones."""

    backwards: int = 0
    looks: int = 0

    @property
    def is_complete(self) -> bool:
        """Return whether all samples were due."""
        return self.backwards >= LOOK_AT[-1]


LineT = TypeVar("LineT", bound=Line)


class LineLooks(Generic[LineT]):
    """The lines with a backward pass, and when to sample them.

    Args:
        make: function that creates the record of a new line.
        at: numbers of the backward passes of a line at which its loss is inspected.
    """

    def __init__(self, make: Callable[[], LineT], at: Container[int] = LOOK_AT) -> None:
        self._make, self._at = make, at
        self._lines: dict[str, LineT] = {}

    @property
    def count(self) -> int:
        """Number of lines with a backward pass."""
        return len(self._lines)

    def due(self, loss: BackwardRoot) -> LineT | None:
        """Count a backward pass; return its line if the loss should be sampled."""
        line = self._lines.get(loss.site)
        if line is None:
            if len(self._lines) >= MAX_LINES:
                return None
            line = self._lines[loss.site] = self._make()
        line.backwards += 1
        looks = line.backwards in self._at and not loss.recomputes
        return line if looks and loss.root.grad_fn is not None else None
