"""Overlaps in a loss that are computed from raw scores instead of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, Shape, operation, output_shape
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.overlaps import is_overlap, signs_of, summed_product
from mothtrap.core.facts.losses import OverlapOfScores

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_RESIZES = 3
"""Maximum number of operations that resize the output of a layer; chosen by hand."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected ones with an overlap of raw scores."""

    found: int = 0
    shape: Shape = ()


class OverlapScoreObserver(LineObserver[_Line]):
    """Detects a Dice coefficient whose prediction is the output of a layer."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        shapes: list[Shape] = []

        def is_of_scores(node: Node) -> bool:
            layer = _layer_behind(node) if is_overlap(node) else None
            if layer is not None:
                shapes.append(output_shape(layer) or ())
            return layer is not None

        list(signs_of(root, is_of_scores))
        if shapes:
            line.found, line.shape = line.found + 1, shapes[0]
        if line.is_complete and line.found:
            self._job.recorder.notes.observe(
                OverlapOfScores(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.found,
                    shape=line.shape,
                    location=place,
                )
            )


def _layer_behind(overlap: Node) -> Node | None:
    """Return the layer whose outputs an overlap multiplies with a target.

    None if another operation, such as a sigmoid, is in between.
    """
    product = summed_product(overlap.next_functions[0][0])
    if product is None:
        return None
    given = [child for child, _ in product.next_functions if child is not None]
    node = graph.through_views(given[0]) if len(given) == 1 else None
    for _ in range(MAX_RESIZES):
        if node is None or not operation(node).startswith("upsample"):
            break
        node = graph.through_views(node.next_functions[0][0])
    return node if node is not None and operation(node) == "linear" else None
