"""Inspections of the losses at each line with a backward pass: a few, early in the training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from mothtrap.adapters.torch.job.graph import Node
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

LOOK_AT = (1, 3, 5, 8, 12)
"""Backward passes of a line at which its loss is inspected; after the last one it is reported."""
MAX_LINES = 16
"""Maximum number of inspected lines with a backward pass."""


@dataclass(slots=True)
class Line:
    """Number of backward passes of one line, and of the inspected ones."""

    backwards: int = 0
    looks: int = 0

    @property
    def is_complete(self) -> bool:
        """Return whether no further inspection is due."""
        return self.backwards >= LOOK_AT[-1]


LineT = TypeVar("LineT", bound=Line)


class LineLooks(Generic[LineT]):
    """The lines with a backward pass, and when to inspect their losses.

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
        """Count a backward pass; return its line if the loss should be inspected."""
        line = self._lines.get(loss.site)
        if line is None:
            if len(self._lines) >= MAX_LINES:
                return None
            line = self._lines[loss.site] = self._make()
        line.backwards += 1
        looks = line.backwards in self._at and not loss.recomputes
        return line if looks and loss.root.grad_fn is not None else None


class LineObserver(ABC, Generic[LineT]):
    """Observer that inspects the graphs of losses. Subclasses define `_inspect`.

    Args:
        job: the job that computes the losses.
        make: function that creates the record of a new line.
        at: numbers of the backward passes of a line at which its loss is inspected.
    """

    def __init__(self, job: Job, make: Callable[[], LineT], at: Container[int] = LOOK_AT) -> None:
        self._job = job
        self._lines = LineLooks(make, at)

    def loss_began(self, loss: BackwardRoot) -> None:
        """Inspect the graph of a loss if due."""
        line, root = self._lines.due(loss), loss.root.grad_fn
        if line is not None and root is not None:
            self._inspect(line, root, loss.place)

    @abstractmethod
    def _inspect(self, line: LineT, root: Node, place: str | None) -> None:
        """Inspect a loss, and report the line after its last inspection.

        Args:
            line: record of the line.
            root: last operation of the loss.
            place: line of the loss.
        """
