"""Overlaps in a loss that are computed from raw scores, or behind two activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, Shape, operation, output_shape
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.overlaps import is_overlap, signs_of, summed_product
from mothtrap.core.facts.loss_terms import OverlapOfScores

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_RESIZES = 3
"""Maximum number of operations that resize the output of a layer; chosen by hand."""

ACTIVATIONS = frozenset({"sigmoid", "softmax"})


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected ones with a wrong overlap."""

    found: int = 0
    shape: Shape = ()
    twice: tuple[str, ...] = ()


class OverlapScoreObserver(LineObserver[_Line]):
    """Detects a Dice coefficient of the output of a layer, or of two activations."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        found: list[tuple[Shape, tuple[str, ...]]] = []

        def is_of_scores(node: Node) -> bool:
            made_by = _prediction_of(node) if is_overlap(node) else None
            twice = _activations(made_by) if made_by is not None else ()
            if made_by is None or not (operation(made_by) == "linear" or twice):
                return False
            found.append((output_shape(made_by) or (), twice))
            return True

        list(signs_of(root, is_of_scores))
        if found:
            line.found += 1
            line.shape, line.twice = found[0]
        if line.is_complete and line.found:
            self._job.recorder.notes.observe(
                OverlapOfScores(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.found,
                    shape=line.shape,
                    twice=line.twice,
                    location=place,
                )
            )


def _prediction_of(overlap: Node) -> Node | None:
    """Return the operation whose results an overlap multiplies with a target.

    Operations that reshape or resize are left out.
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
    return node


def _activations(made_by: Node) -> tuple[str, ...]:
    """Return the last two activations before an overlap if both limit values to 0 .. 1."""
    before = graph.source(made_by)
    names = operation(made_by), before
    return names if set(names) <= ACTIVATIONS else ()
