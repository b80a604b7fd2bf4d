"""Overlaps of prediction and target (Dice, intersection over union) in a loss graph."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, Shape, operation, output_shape
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.loss_terms import OverlapAdded, OverlapBroadcast

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_DEPTH = 8
"""Maximum number of sums, factors, and constants between a quotient and its product. Chosen by
hand.
"""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected ones that add or broadcast an overlap."""

    added: int = 0
    broadcast: int = 0
    shapes: tuple[Shape, Shape] = ((), ())


class OverlapObserver(LineObserver[_Line]):
    """Detects a loss that adds the overlap instead of subtracting it, or broadcasts a side."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        signs = set(signs_of(root, is_overlap))
        line.added += signs == {False}
        shapes = _broadcast_shapes(root)
        if shapes is not None:
            line.broadcast, line.shapes = line.broadcast + 1, shapes
        if line.is_complete and line.broadcast:
            prediction, target = line.shapes
            self._job.recorder.notes.observe(
                OverlapBroadcast(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.broadcast,
                    prediction_shape=prediction,
                    target_shape=target,
                    location=place,
                )
            )
        if line.is_complete and line.added:
            self._job.recorder.notes.observe(
                OverlapAdded(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    added=line.added,
                    location=place,
                )
            )


def _broadcast_shapes(root: Node) -> tuple[Shape, Shape] | None:
    """Return the shapes of a prediction and a larger target whose overlap a loss computes."""
    found: list[tuple[Shape, Shape]] = []

    def is_broadcast(node: Node) -> bool:
        shapes = _shapes_of_overlap(node)
        if shapes is not None:
            found.append(shapes)
        return shapes is not None

    list(signs_of(root, is_broadcast))
    return found[0] if found else None


def _shapes_of_overlap(node: Node) -> tuple[Shape, Shape] | None:
    """Return the shapes of both sides of an overlap if the prediction has fewer values."""
    parts = [child for child, _ in node.next_functions]
    if operation(node) != "div" or len(parts) != 2 or None in parts:
        return None
    product = summed_product(parts[0])
    if product is None or operation(parts[1]) not in ("add", "sub"):
        return None
    prediction, result = output_shape(_operands(product)[0]), output_shape(product)
    targets = [one for one in SavedValues().of(product).values() if one.ndim]
    if prediction is None or result is None or len(targets) != 1:
        return None
    target = tuple(targets[0].shape)
    if math.prod(prediction) >= math.prod(result) or target != result or len(prediction) < 2:
        return None
    mask = targets[0]  # in a weighted mean of other values, weights are broadcast, too
    return (prediction, target) if bool(((mask == 0) | (mask == 1)).all()) else None


def signs_of(
    root: Node, is_wanted: Callable[[Node], bool], operands: int | None = None
) -> Iterator[bool | None]:
    """Yield, for each wanted node near a root, whether it is subtracted; None if unknown.

    Args:
        root: last operation of the loss.
        is_wanted: whether a node is one of those.
        operands: maximum number of operands of each operation that are searched, such as the first
            terms of an episode; None = all.
    """
    waiting: deque[tuple[Node, bool | None]] = deque([(root, False)])
    seen, saved = {root}, SavedValues()
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node, negated = waiting.popleft()
        if is_wanted(node):
            yield negated
            continue
        if node is not root and not graph.is_arithmetic(node):
            continue
        name, children = operation(node), node.next_functions[:operands]
        for place, (child, _) in enumerate(children):
            if child is None or child in seen:
                continue
            seen.add(child)
            if name == "mul":
                waiting.append((child, sign_of_weights(negated, saved.of(node))))
            else:
                waiting.append((child, graph.sign_through(negated, name, place)))


def sign_of_weights(negated: bool | None, factors: dict[str, torch.Tensor]) -> bool | None:
    """Return the sign of a weighted value; None if the signs of weights differ, or all are 0."""
    if negated is None or len(factors) != 1:
        return None
    [weights] = factors.values()
    if not bool(weights.any()):
        return None
    if bool((weights >= 0).all()):
        return negated
    return not negated if bool((weights <= 0).all()) else None


def is_overlap(node: Node) -> bool:
    """Return whether a node divides summed products of prediction and target by their sizes."""
    parts = [child for child, _ in node.next_functions]
    if operation(node) != "div" or len(parts) != 2 or None in parts:
        return False
    top, bottom = parts
    product = summed_product(top)
    return product is not None and operation(product) == "mul" and _adds_areas(bottom)


def _adds_areas(bottom: Node) -> bool:
    """Return whether a divisor is the area of a prediction plus the area of a target.

    The area of a prediction plus one number is not enough: the number may be a small constant, as
    in the share of a prediction that is outside of its target, which should be minimized.
    """
    if operation(bottom) not in ("add", "sub"):
        return False
    for part in _operands(bottom):
        name, inner = operation(part), {operation(one) for one in _operands(part)}
        if name in ("add", "sub") and "sum" in inner:
            return True
        if name == "sum" and inner & {"add", "mul", "pow"}:
            return True
    return False


def _operands(node: Node) -> list[Node]:
    return [child for child, _ in node.next_functions if child is not None]


def summed_product(node: Node | None) -> Node | None:
    """Return the product of a prediction and a constant that is summed, scaled, and shifted."""
    summed = False
    for _ in range(MAX_DEPTH):
        if node is None:
            return None
        inputs, name = _operands(node), operation(node)
        if len(inputs) != 1 or name not in ("add", "mul", "sum", "view"):
            return None
        if name == "mul" and summed:
            return node
        summed = summed or name == "sum"
        node = inputs[0]
    return None
