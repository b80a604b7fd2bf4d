"""Labels and lengths of `ctc_loss`, as saved in the graph of a loss."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.targets import CtcLabels

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_LABELS = 1 << 14
"""Maximum number of labels of a batch that are read."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and sums over its inspected batches."""

    labels: int = 0
    blanks: int = 0
    padding: int = 0
    blank: int = 0
    rows: int = 0
    short: int = 0
    zeroed: bool = False
    shortest: tuple[int, int] | None = None


class CtcLabelObserver(LineObserver[_Line]):
    """Counts labels that are the blank, and rows with fewer frames than their labels need."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        nodes = [term.node for term in graph.loss_terms(root) if term.operation == "ctc_loss"]
        with torch.no_grad():
            for node in nodes:
                _add(line, node)
        line.looks += bool(nodes)
        if line.is_complete and line.rows:
            frames, needed = line.shortest or (None, None)
            self._job.recorder.notes.observe(
                CtcLabels(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    labels=line.labels,
                    blanks=line.blanks,
                    padding=line.padding,
                    blank=line.blank,
                    rows=line.rows,
                    short=line.short,
                    zeroed=line.zeroed,
                    frames=frames,
                    needed=needed,
                    location=place,
                )
            )


def _add(line: _Line, node: Node) -> None:
    """Add the rows of one call to the counts of a line."""
    blank = getattr(node, "_saved_blank", None)
    frames_R = getattr(node, "_saved_input_lengths", None)
    counts_R = getattr(node, "_saved_target_lengths", None)
    targets = SavedValues().of(node).get("targets")
    if blank is None or targets is None or not 0 < targets.numel() <= MAX_LABELS:
        return
    if not isinstance(frames_R, tuple) or not isinstance(counts_R, tuple):
        return
    line.blank, line.zeroed = blank, bool(getattr(node, "_saved_zero_infinity", False))
    for labels, frames in zip(_rows(targets, counts_R), frames_R, strict=True):
        needed = len(labels) + sum(one == other for one, other in pairwise(labels))
        last = max((place for place, one in enumerate(labels) if one != blank), default=-1)
        line.rows += 1
        line.labels += len(labels)
        line.blanks += labels.count(blank)
        line.padding += len(labels) - 1 - last
        if frames < needed:
            line.short += 1
            line.shortest = line.shortest or (frames, needed)


def _rows(targets: torch.Tensor, counts_R: tuple[int, ...]) -> list[list[int]]:
    """Return the labels of each row, which `ctc_loss` takes as a matrix or one after the other."""
    if targets.ndim == 2:
        return [row[:count] for row, count in zip(targets.tolist(), counts_R, strict=True)]
    left = iter(targets.tolist())
    return [[next(left) for _ in range(count)] for count in counts_R]
