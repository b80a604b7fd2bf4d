"""Hand-written losses with a margin: `relu(near - far + margin)` and its relatives.

The margin is computed from values that the graph saved for the backward pass: the input of the
hinge minus its distances. Shape suffix: N = rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineLooks
from mothtrap.adapters.torch.losses.margins import MarginObserver
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.pairs import MarginLoss

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

EVERY, SAMPLES = 8, 25
"""One in so many backward passes of a line is inspected, and so many are reported together."""
MISSES = 3
"""Inspections of a line without such a loss after which it is no longer inspected."""
EXACT = 1e-3
"""Difference between margins of two rows, as a share of them, that counts as rounding; by hand."""
ZERO = 1e-5
"""Margin, as a share of the distances, that counts as 0; chosen by hand."""
DEPTHS = 64
"""Distances that are tried as the same distance of all pairs."""
_HINGES = ("relu", "clamp_min", "clamp")
Linear = list[tuple[int, Node]]


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the values that are not yet reported."""

    misses: int = 0
    margin: float = 0.0
    values: list[float] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Hinge:
    """The value of a loss with a margin, and its value if all distances were equal."""

    value: float
    margin: float
    level: float


class HingeObserver:
    """Finds hinges in the graphs of losses, unless another observer sees losses with a margin."""

    def __init__(self, job: Job, margins: MarginObserver) -> None:
        self._job, self._margins = job, margins
        self._lines = LineLooks(_Line, range(EVERY, 1 << 20, EVERY))

    def loss_began(self, loss: BackwardRoot) -> None:
        """Inspect the graph of a loss if due."""
        line = self._lines.due(loss)
        if line is None or line.misses >= MISSES or self._margins.is_used:
            return
        with torch.no_grad():
            found = hinge(loss.root.grad_fn, line.margin)
        if found is None and line.values and line.margin == 0:
            found = Hinge(0.0, 0.0, 0.0)  # without a margin, no row may be left in the hinge
        if found is None:
            line.misses += 1
            return
        line.misses, line.margin = 0, found.margin
        line.values.append(found.value)
        line.levels.append(found.level)
        if len(line.values) < SAMPLES:
            return
        self._job.recorder.notes.observe(
            MarginLoss(
                step=self._job.grouper.step,
                loss="the loss",
                margin=line.margin,
                calls=line.backwards,
                values=tuple(line.values),
                level=sum(line.levels) / len(line.levels),
                location=loss.place,
            )
        )
        line.values.clear()
        line.levels.clear()


def hinge(root: Node, margin: float = 0.0) -> Hinge | None:
    """Return the only hinge near a root; None if there is none, or it cannot be read.

    Args:
        root: `grad_fn` of a loss.
        margin: margin of an earlier call, for rows that are all beyond it.
    """
    saved = SavedValues()
    parts = list(_parts(root, saved))
    hinges = [(node, weights, power) for node, weights, power in parts if _terms(node)]
    if len(hinges) != 1:
        return None
    node, weights, power = hinges[0]
    terms = _terms(node)
    distances = [one for _, term in terms if (one := _value(term, saved)) is not None]
    if len(distances) < len(terms):
        return None
    shift_N = sum(sign * one.reshape(-1) for (sign, _), one in zip(terms, distances, strict=True))
    inside_N = _inside(node, saved)
    if inside_N is None or not isinstance(shift_N, torch.Tensor) or inside_N.shape != shift_N.shape:
        return None
    active_N = inside_N > 0
    if bool(active_N.any()):
        margins = (inside_N - shift_N)[active_N]
        margin = float(margins.mean())
        if float(margins.max() - margins.min()) > EXACT * max(1.0, abs(margin)):
            return None
        if len(terms) == 2 and abs(margin) <= ZERO * float(distances[0].mean()):
            return Hinge(float(inside_N.clamp(min=0).mean()), 0.0, 0.0)
    if margin <= 0:
        return None
    value_N = inside_N.clamp(min=0)
    if len(terms) == 2:
        return Hinge(float(value_N.mean()), margin, margin)
    return _pairs(parts, node, value_N, margin, weights, power, saved)


def _pairs(
    parts: list[_Part],
    node: Node,
    value_N: torch.Tensor,
    margin: float,
    weights: Node,
    power: float,
    saved: SavedValues,
) -> Hinge | None:
    """Return the value of a contrastive loss, whose other term pulls pairs together."""
    [(_, distance)] = _terms(node)
    others = [part for part in parts if part[0] is not node]
    push_N, distance_N = _weights(weights, saved), _value(distance, saved)
    if push_N is None or distance_N is None or len(others) != 1:
        return None
    other, of_other, pulling = others[0]
    pull_N, near_N = _weights(of_other, saved), _value(other, saved)
    if pull_N is None or near_N is None or near_N.numel() != value_N.numel():
        return None
    if not push_N.shape == pull_N.shape == value_N.shape:
        return None
    near_N, distance_N = near_N.reshape(-1) ** pulling, distance_N.reshape(-1)
    squares = (one for one in (1.0, 2.0) if torch.allclose(near_N, distance_N**one, 1e-2, 1e-4))
    grows = next(squares, None)
    if grows is None:  # another distance, or another power
        return None
    value = (pull_N * near_N + push_N * value_N**power).mean()
    depth = torch.linspace(0, margin, DEPTHS)
    level = float(pull_N.mean()) * depth**grows + float(push_N.mean()) * (margin - depth) ** power
    return Hinge(float(value), margin, float(level.min()))


_Part = tuple[Node, Node, float]


def _parts(root: Node, saved: SavedValues) -> Iterator[_Part]:
    """Yield the hinges and distances near a root, each with the product above it and its power."""
    waiting: deque[_Part] = deque([(root, None, 1.0)])
    seen = {root}
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node, weights, power = waiting.popleft()
        name = operation(node)
        if name in _HINGES or _is_distance(node):
            yield node, weights, power
            continue
        if name == "pow":
            power *= float(getattr(node, "_saved_exponent", 1))
        elif name == "mul":
            children = [child for child, _ in node.next_functions]
            if _weights(node, saved) is not None:
                weights = node
            elif children[0] is children[-1]:
                power *= 2
        elif not (node is root or graph.is_arithmetic(node)):
            continue
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append((child, weights, power))


def _terms(node: Node) -> Linear:
    """Return the signed distances whose sum a hinge clips; none if it clips something else."""
    if operation(node) not in _HINGES:
        return []
    found: Linear = []
    waiting = [(1, node.next_functions[0][0])]
    for _ in range(8):
        if not waiting:
            break
        sign, behind = waiting.pop()
        behind = graph.through_views(behind)
        name = operation(behind) if behind is not None else ""
        if behind is not None and _is_distance(behind):
            found.append((sign, behind))
        elif behind is not None and name in ("add", "sub", "rsub", "neg"):
            first = -sign if name in ("rsub", "neg") else sign
            second = -sign if name == "sub" else sign
            operands = zip((first, second), behind.next_functions, strict=False)
            waiting += [(one, child) for one, (child, _) in operands if child is not None]
        else:
            return []
    signs = sorted(sign for sign, _ in found)
    return found if signs in ([-1, 1], [-1]) else []


def _is_distance(node: Node) -> bool:
    """Return whether a node makes distances whose values can be read from its graph."""
    name = operation(node)
    if name in ("linalg_vector_norm", "norm", "sqrt", "cdist"):
        return True
    behind = node.next_functions[0][0] if name == "sum" else None
    if behind is None or operation(behind) not in ("pow", "mul"):
        return False
    return len(getattr(node, "_saved_dim", None) or ()) == 1


def _value(node: Node, saved: SavedValues) -> torch.Tensor | None:
    """Return the values of distances."""
    if operation(node) != "sum":
        return saved.of(node).get("result")
    behind = node.next_functions[0][0]
    factors = saved.of(behind)
    if operation(behind) == "pow" and "self" in factors:
        squares = factors["self"] ** float(behind._saved_exponent)
    elif {"self", "other"} <= factors.keys():
        squares = factors["self"] * factors["other"]
    else:
        return None
    [dim] = node._saved_dim
    dim = dim - (1 << 64) if dim >= 1 << 63 else dim  # stored as an unsigned number
    return squares.sum(dim)


def _inside(node: Node, saved: SavedValues) -> torch.Tensor | None:
    """Return what a hinge clips; a `relu` saved only its result."""
    values = saved.of(node)
    found = values.get("result" if operation(node) == "relu" else "self")
    return found.reshape(-1) if found is not None else None


def _weights(product: Node, saved: SavedValues) -> torch.Tensor | None:
    """Return the weights of a product that have no graph; one for each row."""
    children = [child for child, _ in product.next_functions] if product is not None else []
    if children.count(None) != 1:
        return None
    place = children.index(None)
    found = saved.of(product).get(("self", "other")[place])
    return found.reshape(-1) if found is not None and found.numel() > 1 else None
