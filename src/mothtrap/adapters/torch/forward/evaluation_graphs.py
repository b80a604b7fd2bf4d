"""Detect graphs of evaluations that are kept after the evaluation."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence

import torch

from mothtrap.core.facts.memory import EvaluationGraphsKept
from mothtrap.core.steps import Mode
from mothtrap.tracing.source import frames

MAX_FORWARDS = 256
"""Maximum number of marked forwards of one evaluation."""
MAX_EVALUATIONS = 64
"""Number of earlier evaluations that are checked."""
REPORTED = 3
"""Consecutive evaluations with kept graphs that are reported to the rules."""
_KEY = "mothtrap evaluation"


class _Mark:
    """Object that exists as long as the graph node whose metadata contains it."""

    __slots__ = ("__weakref__",)


class EvaluationGraphs:
    """Marks the graphs of evaluation forward passes, and counts evaluations that keep some.

    A loss or a prediction that is kept alive also keeps the nodes of its graph and the mark alive.
    This object holds no strong references to them.
    """

    def __init__(self) -> None:
        self._marks: list[weakref.ref[_Mark]] = []
        self._before: deque[list[weakref.ref[_Mark]]] = deque(maxlen=MAX_EVALUATIONS)
        self._location: str | None = None

    def returned(self, outputs: Sequence[torch.Tensor]) -> None:
        """Mark a forward pass with a graph that may belong to an evaluation."""
        node = next((out.grad_fn for out in outputs if out.grad_fn is not None), None)
        metadata = getattr(node, "metadata", None)
        if not isinstance(metadata, dict) or len(self._marks) >= MAX_FORWARDS:
            return
        mark = metadata[_KEY] = _Mark()
        if not self._marks:
            self._location = frames.user_location()
        self._marks.append(weakref.ref(mark))

    def was_training(self) -> None:
        """Discard the marks, because a backward pass followed."""
        self._marks.clear()

    def closed(self, step: int) -> EvaluationGraphsKept | None:
        """End an evaluation; return how many earlier ones are still in memory, if many.

        The evaluation that ends does not count, because a variable of the loop may still refer to
        its last graph.
        """
        marks, self._marks = self._marks, []
        if not marks:
            return None
        held = [sum(mark() is not None for mark in one) for one in reversed(self._before)]
        self._before.append(marks)
        running = next((n for n, count in enumerate(held) if not count), len(held))
        if running < REPORTED:
            return None
        return EvaluationGraphsKept(
            step=step,
            mode=Mode.EVAL,
            evaluations=running,
            forwards=sum(held[:running]),
            location=self._location,
        )
