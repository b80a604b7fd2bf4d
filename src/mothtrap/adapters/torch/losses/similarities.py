"""Losses that only reward that two outputs of a network are similar."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineLooks
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.pairs import SimilarityLoss

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

_COMBINES = frozenset(["mean", "sum", "add", "neg", "mul", "div", "rsub", "sub", "stack", "cat"])
"""Operations that combine similarities."""
_OF_NORMS = frozenset(["expand", "clamp_min", "clone", "view", "unsqueeze", "add"])
"""Operations between a norm and the division by it."""
_NORMS = frozenset(["linalg_vector_norm", "norm"])
MAX_NORM = 6
"""Maximum number of operations between a norm and the division by it. Chosen by hand."""
MATRIX = 2
"""Number of axes of weights that the two sides must share: biases alone say little."""

Sides = tuple[Node | None, Node | None]


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, by the sides that have a gradient."""

    both: int = 0
    one: int = 0


class SimilarityObserver:
    """Detects from the graph of a loss whether both sides of a similarity are trained."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lines = LineLooks(_Line)
        self._looked: tuple[_Line, str | None] | None = None
        self._shared: set[int] = set()
        self._stepped: set[int] = set()

    def loss_began(self, loss: BackwardRoot) -> None:
        """Inspect the terms of a loss if due."""
        self._looked = None
        line = self._lines.due(loss)
        if line is None or loss.root.grad_fn is None:
            return
        line.looks += 1
        sides = similarities(loss.root.grad_fn)
        if not sides:
            return
        self._looked = line, loss.place
        self._shared, self._stepped = set(), set()
        for first, second in sides:
            if first is not None and second is not None:
                self._shared |= _weights(first) & _weights(second)

    def stepping(self, optimizer: Optimizer) -> None:
        """Record the parameters that an optimizer updates after the loss."""
        if self._looked is not None:
            self._stepped.update(id(p) for p in parameters(optimizer))

    def closed(self, step: int) -> None:
        """Count the loss by the sides that change the updated parameters."""
        looked, self._looked = self._looked, None
        if looked is None or not self._stepped:
            return
        line, place = looked
        both = not self._shared.isdisjoint(self._stepped)
        line.both += both
        line.one += not both
        if line.is_complete:
            self._job.recorder.notes.observe(
                SimilarityLoss(
                    step=step, looks=line.looks, both=line.both, one=line.one, location=place
                )
            )


def similarities(root: Node) -> list[Sides]:
    """Return the two sides of each similarity of which a loss consists; None has no gradient.

    Empty if the loss has any other term, or weights similarities by a tensor, such as labels.
    """
    found: list[Sides] = []
    waiting, seen = deque([root]), {root}
    while waiting:
        node = waiting.popleft()
        sides = _sides(node)
        if sides is not None:
            found.append(sides)
            continue
        children = [child for child, _ in node.next_functions if child is not None]
        if not _combines(node, children) or len(seen) > graph.MAX_HEAD_NODES:
            return []
        waiting.extend(child for child in children if child not in seen)
        seen.update(children)
    return found


def _combines(node: Node, children: list[Node]) -> bool:
    """Return whether a node adds, averages, or scales its operands."""
    name = operation(node)
    if name in ("mul", "div", "sub", "rsub"):
        saved = [getattr(node, name, None) for name in ("_saved_self", "_saved_other")]
        weights = [one for one in saved if isinstance(one, torch.Tensor) and one.numel() > 1]
        return len(children) == 1 and not weights
    return name in _COMBINES or graph.through_views(node) is not node


def _sides(node: Node) -> Sides | None:
    """Return the two sides of a sum of products of normalized vectors, or of their mse_loss."""
    name = operation(node)
    if name == "sum":
        node = node.next_functions[0][0] or node
        name = operation(node)
    elif name != "mse_loss":
        return None
    if name not in ("mul", "mse_loss") or len(node.next_functions) < 2:
        return None
    first, second = (child for child, _ in node.next_functions[:2])
    if not all(side is None or _is_normalized(side) for side in (first, second)):
        return None
    return (first, second) if first is not None or second is not None else None


def _is_normalized(node: Node) -> bool:
    """Return whether a node divides vectors by their own norm."""
    if operation(node) != "div" or len(node.next_functions) < 2:
        return False
    vectors, norm = (child for child, _ in node.next_functions[:2])
    for _ in range(MAX_NORM):
        if norm is None or operation(norm) not in _OF_NORMS:
            break
        norm = next((child for child, _ in norm.next_functions if child is not None), None)
    return norm is not None and operation(norm) in _NORMS and norm.next_functions[0][0] is vectors


def _weights(node: Node) -> set[int]:
    """Return the identities of the weights that get a gradient from a node."""
    leaves, _ = graph.leaves_behind(node)
    return {id(leaf) for leaf in leaves if leaf.ndim >= MATRIX}
