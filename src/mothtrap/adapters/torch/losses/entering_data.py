"""Data that enter a network, read from the values that its first layers saved."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.saved_values import MAX_NODES, SavedValues, nodes_in_order

MAX_BEFORE = 8
"""Maximum number of sums and views between data and the first layer. Chosen by hand."""
_DATA = {
    "AddmmBackward0": (1, "mat1"),
    "MmBackward0": (0, "self"),
    "LinearBackward0": (0, "input"),
    "ConvolutionBackward0": (0, "input"),
    "EmbeddingBackward0": (-1, "indices"),
}
"""Position of the data among the operands of a layer, and the name under which it saved them.
Indices are not an operand (-1)."""
_JOINS = frozenset({"add", "sub", "rsub", "cat"})
"""Operations that combine data without a gradient with other values before a layer."""


def entering_data(loss: Node) -> Iterator[torch.Tensor]:
    """Yield the data that enter a network, as its first layers saved them.

    Yields an empty tensor for data that cannot be read.

    Args:
        loss: operation whose graph contains the network.
    """
    saved = SavedValues()
    every = nodes_in_order(loss)
    if len(every) > MAX_NODES:
        yield torch.empty(0)
    for node in every:
        place, name = _DATA.get(str(node.name()), (0, ""))
        if name and _gets_data(node, place):
            yield saved.of(node).get(name, torch.empty(0))


def _gets_data(layer: Node, place: int) -> bool:
    """Return whether data enter a layer without passing through another layer."""
    behind = layer.next_functions[place][0] if place >= 0 else None
    if behind is None:
        return True
    waiting, seen = [behind], 0
    while waiting and seen < MAX_BEFORE:
        node = waiting.pop()
        seen += 1
        name = operation(node)
        children = [child for child, _ in node.next_functions]
        if name in _JOINS and None in children:
            return True
        if name in _JOINS or graph.through_views(node) is not node:
            waiting.extend(child for child in children if child is not None)
    return False
