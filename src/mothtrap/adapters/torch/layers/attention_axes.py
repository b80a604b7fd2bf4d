"""Detect softmaxes of attention over the batch or the heads, in the graph of a loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, Shape, operation, output_shape
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.core.facts.layers import AttentionAxis
from mothtrap.tracing.source.mentions import only_call

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

_VIEWS = frozenset(["alias", "expand", "reshape", "squeeze", "unsafe_view", "unsqueeze", "view"])
_KEEPS_ORDER = _VIEWS | {"clone", "native_dropout", "to_copy"}
"""Operations between a softmax and its product with values that do not move axes."""


class AttentionAxisObserver(LineObserver[Line]):
    """Determines over which axis the weights of every attention under a loss sum to 1.

    A matrix product never sums over the batch, so weights that sum to 1 over the batch do not match
    the summed values.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job, Line)

    def _inspect(self, line: Line, root: Node, place: str | None) -> None:
        line.looks += 1
        rows = {
            term.prediction_shape[0] for term in graph.loss_terms(root) if term.prediction_shape
        }
        found = next((one for one in _wrong_axes(root) if one[1] or _is_batch(one[0], rows)), None)
        if found is not None:
            shape, axis = found
            self._job.recorder.notes.observe(
                AttentionAxis(
                    step=self._job.grouper.step,
                    shape=shape,
                    axis=axis,
                    location=only_call("softmax", "Softmax") or place,
                )
            )


def _is_batch(scores: Shape, rows: set[int]) -> bool:
    """Return whether axis 0 of scores is the batch, rather than, say, the capsules of a layer.

    Args:
        scores: shape of the scores.
        rows: sizes of the first axis of predictions, in which positions may be joined with rows.
    """
    return any(
        number == scores[0] or (number % scores[0] == 0 and number not in scores) for number in rows
    )


def _wrong_axes(root: Node) -> Iterator[tuple[Shape, int]]:
    """Yield shape and axis of softmaxes over an axis that the product with values does not sum."""
    for node in graph.nodes([root]):
        if str(node.name()).startswith("Bmm"):
            products = [node]
        elif operation(node) == "sum" and _adds_within_rows(node):
            products = [child for child, _ in node.next_functions if child is not None]
            products = [product for product in products if operation(product) == "mul"]
        else:
            continue
        for product in products:
            for child, _ in product.next_functions:
                softmax = _softmax_behind(child)
                # Class probabilities of pixels are multiplied and added, too, but over axis 1.
                if softmax is not None and (softmax[1] == 0 or product is node):
                    yield softmax


def _adds_within_rows(total: Node) -> bool:
    """Return whether a sum keeps axis 0, as the sum of values weighted by attention does."""
    given = next((child for child, _ in total.next_functions if child is not None), None)
    shape, dims = output_shape(given) if given is not None else None, total
    saved = getattr(dims, "_saved_dim", None)
    if not shape or not isinstance(saved, tuple) or not saved:
        return False
    return all(dim not in (0, 2**64 - len(shape), -len(shape)) for dim in saved)


def _softmax_behind(node: Node | None) -> tuple[Shape, int] | None:
    """Return shape and axis of a softmax over the batch or the heads, unless axes were moved."""
    leading = []
    while node is not None and operation(node) in _KEEPS_ORDER:
        leading.append((output_shape(node) or (0,))[0])
        node = node.next_functions[0][0]
    if node is None or operation(node) != "softmax":
        return None
    shape, axis = output_shape(node), getattr(node, "_saved_dim", None)
    if not shape or len(shape) < 2 or not isinstance(axis, int):
        return None
    axis = axis if axis < len(shape) else axis - 2**64 + len(shape)
    joined = shape[0] * (shape[1] if len(shape) == 4 else 1)
    known, wrong = {shape[0], joined}, axis == 0
    if axis == 1 and len(shape) == 4:
        # Heads are merged with the batch for a product; classes of pixels are not.
        wrong = leading[:1] == [joined]
    one_weight = shape[axis] == 1 and (axis != 0 or max(shape) == 1)
    return (shape, axis) if wrong and not one_weight and known.issuperset(leading) else None
