"""Classes of label maps that an interpolation of other classes has made up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.core.facts.data import BorderClasses

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_ROWS, MAX_SIZE, MAX_CLASSES = 8, 256, 256
LEAST_SIZE = 8
"""Minimum height and width of a label map."""
LEAST_PLACES = 30
"""Minimum number of places of a class; chosen by hand."""
BORDER, AREA = 0.95, 0.5
"""Share of the places of a class that are between others, from which it is a border, and up to
which it fills areas; chosen by hand."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and places of each class: all, and those between others."""

    places: torch.Tensor | None = None
    between: torch.Tensor | None = None


class BorderClassObserver(LineObserver[_Line]):
    """Counts the pixels of each class that lie between a lower and a higher class."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        with torch.no_grad():
            for term in graph.loss_terms(root):
                labels = loss_values.target(term, checkpointed=False)
                if labels is None or labels.ndim != 3 or labels.is_floating_point():
                    continue
                if min(labels.shape[1:]) < LEAST_SIZE or not 2 < (term.classes or 0) <= MAX_CLASSES:
                    continue
                line.looks += 1
                _count(line, labels, term.classes or 0)
        if line.is_complete and line.places is not None and line.between is not None:
            self._report(line, line.places, line.between, place)

    def _report(
        self, line: _Line, places: torch.Tensor, between: torch.Tensor, place: str | None
    ) -> None:
        share = between / places.clamp(min=1)
        is_border = (places >= LEAST_PLACES) & (share >= BORDER)
        classes = tuple(is_border.nonzero()[:, 0].tolist())
        self._job.recorder.notes.observe(
            BorderClasses(
                step=self._job.grouper.step,
                looks=line.looks,
                classes=classes,
                places=int(places[is_border].sum()),
                others=int(((places >= LEAST_PLACES) & (share <= AREA)).sum()),
                location=place,
            )
        )


def _count(line: _Line, labels: torch.Tensor, classes: int) -> None:
    """Add the places of some label maps to the counts of a line.

    Args:
        line: record of the line.
        labels: class numbers, shape (R, H, W).
        classes: number of classes; other labels, such as ignored ones, do not count.
    """
    maps = labels[:MAX_ROWS, :MAX_SIZE, :MAX_SIZE].cpu()
    known = (maps >= 0) & (maps < classes)
    values = maps.float()
    highest = functional.max_pool2d(values.where(known, torch.tensor(-1.0)), 3, 1, 1)
    lowest = -functional.max_pool2d((-values).where(known, torch.tensor(-float(classes))), 3, 1, 1)
    is_between = known & (lowest < values) & (values < highest)
    places = torch.bincount(maps[known], minlength=classes)
    between = torch.bincount(maps[is_between], minlength=classes)
    line.places = places if line.places is None else line.places + places
    line.between = between if line.between is None else line.between + between
