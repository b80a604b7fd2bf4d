"""Logarithms of hand-written softmaxes in a loss: `log(exp(score) / exp(scores).sum())`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.overlaps import signs_of
from mothtrap.core.facts.loss_terms import ShareAdded

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_STEPS = 5
"""Maximum number of sums, selections, and factors between a quotient and an exponential. Chosen by
hand.
"""
BETWEEN = frozenset(
    {"sum", "add", "sub", "mul", "index", "gather", "cat", "masked_select", "masked_fill"}
    | {"diagonal", "select", "slice"}
)
"""Operations between a quotient and its exponentials."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the number of inspected ones that add such a logarithm."""

    added: int = 0


class ShareObserver(LineObserver[_Line]):
    """Detects a loss that adds the logarithm of a probability instead of subtracting it."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        line.added += set(signs_of(root, _is_log_of_share)) == {False}
        if line.is_complete and line.added:
            self._job.recorder.notes.observe(
                ShareAdded(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    added=line.added,
                    location=place,
                )
            )


def _is_log_of_share(node: Node) -> bool:
    """Return whether a node is the logarithm of a quotient of exponentials."""
    if operation(node) != "log":
        return False
    quotient = graph.through_views(node.next_functions[0][0])
    if quotient is not None and operation(quotient) == "add":  # a small constant
        quotient = graph.through_views(quotient.next_functions[0][0])
    if quotient is None or operation(quotient) != "div":
        return False
    parts = [child for child, _ in quotient.next_functions]
    return len(parts) == 2 and all(map(_is_of_exponentials, parts))


def _is_of_exponentials(node: Node | None) -> bool:
    node = graph.through_views(node)
    for _ in range(MAX_STEPS):
        if node is None or operation(node) not in BETWEEN:
            break
        children = [child for child, _ in node.next_functions if child is not None]
        node = graph.through_views(children[0]) if children else None
    return node is not None and operation(node) == "exp"
