"""Class losses whose scores are distances, without a minus sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.overlaps import sign_of_weights
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.pairs import DistancesAsScores

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_NODES = 24
"""Maximum number of operations between scores and distances; chosen by hand."""
_POSITIVE = frozenset({"exp", "softplus", "sigmoid"})
"""Operations with positive results, such as a trained inverse temperature."""
_SHIFTS = ("add", "sub")


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected ones whose scores are distances."""

    found: int = 0
    choices: int = 0


class DistanceScoreObserver(LineObserver[_Line]):
    """Follows the scores of a class loss to the distances from which they are computed."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        for term in graph.loss_terms(root):
            labeled = term.operation == "cross_entropy" and term.negated is False
            if labeled and term.source is not None and _adds_distances(term.source):
                line.found += 1
                line.choices = term.classes or line.choices
                break
        if line.is_complete and line.found:
            self._job.recorder.notes.observe(
                DistancesAsScores(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.found,
                    choices=line.choices,
                    location=place,
                )
            )


def _adds_distances(log_softmax: Node) -> bool:
    """Return whether all scores of a log-softmax are distances with a plus sign."""
    waiting: list[tuple[Node, bool | None]] = [(log_softmax.next_functions[0][0], False)]
    saved, found = SavedValues(), False
    for _ in range(MAX_NODES):
        if not waiting:
            return found
        node, negated = waiting.pop()
        node = graph.through_views(node)
        if node is None or negated is not False:
            return False
        if _is_distance(node):
            found = True
            continue
        children = [child for child, _ in node.next_functions]
        given = [child for child in children if child is not None]
        if operation(node) == "mul":
            given = [child for child in given if operation(child) not in _POSITIVE]
            factors = saved.of(node)
            known = len(given) == 1
            if known and None in children:
                negated = sign_of_weights(negated, factors)
            waiting += [(child, negated if known else None) for child in given]
        elif operation(node) in ("cat", "stack", "div", "neg"):
            waiting += [
                (child, graph.sign_through(negated, operation(node), place))
                for place, child in enumerate(children)
                if child is not None
            ]
        else:
            return False
    return False


def _is_distance(node: Node) -> bool:
    """Return whether a node computes distances between rows."""
    name = operation(node)
    if name in ("cdist", "euclidean_dist"):
        return True
    if name == "sqrt":
        behind = graph.through_views(node.next_functions[0][0])
        return behind is not None and operation(behind) == "sum" and _is_distance(behind)
    if name not in ("linalg_vector_norm", "norm", "sum"):
        return False
    behind = graph.through_views(node.next_functions[0][0])
    if name == "sum" and behind is not None:
        if operation(behind) not in ("pow", "mul"):
            return False
        sides = {child for child, _ in behind.next_functions}
        behind = graph.through_views(sides.pop()) if len(sides) == 1 else None
    return behind is not None and _is_difference(behind)


def _is_difference(node: Node) -> bool:
    """Return whether a node subtracts rows, and perhaps adds a small number."""
    for _ in range(len(_SHIFTS)):
        if operation(node) == "sub":
            return True
        inputs = [child for child, _ in node.next_functions if child is not None]
        if operation(node) != "add" or len(inputs) != 1:
            return False
        node = inputs[0]
    return False
