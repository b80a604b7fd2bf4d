"""Soft targets of a loss, as of a teacher, compared with the labels of the same rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.targets import SoftTargets

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

LOOK_AT = (4, 8, 12, 16, 20, 24, 28)
"""Backward passes of a line at which its loss is inspected. Chosen by hand."""
MAX_CLASSES = 100
MAX_ROWS = 1024
TOLERANCE = 1e-3
"""Largest distance of the sum of a row of probabilities from 1. Chosen by hand."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected rows.

    `given` and `labels` count the most probable classes of the soft targets and the labels, and
    `surest` is the sum of the largest probabilities.
    """

    rows: int = 0
    agree: int = 0
    surest: float = 0.0
    given: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)


class SoftTargetObserver(LineObserver[_Line]):
    """Counts how often the soft targets of a loss and its labels have the same class."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line, LOOK_AT)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        both = _targets(root)
        if both is not None:
            line.looks += 1
            _count(line, *both)
        if line.backwards == LOOK_AT[-1] and line.looks:
            self._job.recorder.notes.observe(
                SoftTargets(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    rows=line.rows,
                    agree=line.agree,
                    surest=line.surest / line.rows,
                    given=tuple(line.given),
                    labels=tuple(line.labels),
                    location=place,
                )
            )


def _count(line: _Line, soft_RC: torch.Tensor, labels_R: torch.Tensor) -> None:
    classes = soft_RC.shape[1]
    given_R, labels_R = soft_RC.argmax(1).to("cpu"), labels_R.to("cpu")
    counts = [torch.bincount(one, minlength=classes).tolist() for one in (given_R, labels_R)]
    if len(line.given) != classes:
        line.rows, line.agree, line.surest = 0, 0, 0.0
        line.given, line.labels = [0] * classes, [0] * classes
    line.surest += float(soft_RC.amax(1).float().sum())
    line.rows += len(labels_R)
    line.agree += int((given_R == labels_R).sum())
    line.given = [sum(pair) for pair in zip(line.given, counts[0], strict=True)]
    line.labels = [sum(pair) for pair in zip(line.labels, counts[1], strict=True)]


def _targets(root: Node) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the soft targets and the labels of the same rows in a loss, if it has both."""
    saved = SavedValues()
    soft: list[torch.Tensor] = []
    hard: list[torch.Tensor] = []
    for node in _near(root):
        values = saved.of(node)
        if operation(node).startswith("nll_loss"):
            hard += [values["target"]] if "target" in values else []
        elif operation(node) == "mul" and _of_log_probabilities(node):
            soft += [one for one in values.values() if _are_probabilities(one)]
    if len(soft) != 1 or len(hard) != 1 or hard[0].ndim != 1 or len(hard[0]) != len(soft[0]):
        return None
    rows_RC, labels_R = soft[0][:MAX_ROWS], hard[0][:MAX_ROWS]
    classes = rows_RC.shape[1]
    is_contrastive = classes == len(soft[0])
    if is_contrastive or not bool(((labels_R >= 0) & (labels_R < classes)).all()):
        return None
    return rows_RC, labels_R


def _near(root: Node) -> Iterator[Node]:
    """Yield the nodes between a root and its losses, and the losses."""
    waiting, seen = deque([root]), {root}
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node = waiting.popleft()
        yield node
        if node is root or graph.is_arithmetic(node):
            children = [child for child, _ in node.next_functions if child not in (None, *seen)]
            waiting.extend(children)
            seen.update(children)


def _of_log_probabilities(product: Node) -> bool:
    """Return whether a node multiplies log-probabilities with numbers without a graph."""
    inputs = [child for child, _ in product.next_functions]
    made = graph.through_views(next((child for child in inputs if child is not None), None))
    return inputs.count(None) == 1 and made is not None and operation(made) == "log_softmax"


def _are_probabilities(values: torch.Tensor) -> bool:
    if values.ndim != 2 or not 3 <= values.shape[1] <= MAX_CLASSES:
        return False
    some = values[:MAX_ROWS].float()
    return bool((some >= 0).all() & ((some.sum(1) - 1).abs() <= TOLERANCE).all())
