"""Scores of attention without a fused operation: the input of its softmax, from the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from mothtrap.adapters.torch.job.graph import Node, operation

MAX_STEPS = 32
"""Maximum number of operations between a softmax and the product of queries and keys."""
VIEWS = (
    *("view", "unsafe_view", "reshape", "expand", "clone", "transpose", "permute", "to_copy"),
    *("squeeze", "unsqueeze", "reshape_alias"),
)
"""Operations that change no values; `einsum` consists of these and a product."""
_MASKS = ("add", "sub", "masked_fill", "where", "nan_to_num")
_SCALES = ("mul", "div")

Saved = Callable[[Node, str], torch.Tensor | None]


@dataclass(frozen=True, slots=True)
class Product:
    """The product of queries (N, L, D) and keys (N, D, K) from which scores are computed.

    `after` is the factor applied to the product, `before` the factor that is already contained in
    the queries and keys.
    """

    query: torch.Tensor
    key: torch.Tensor
    after: float
    before: float


def product_under(softmax: Node, saved: Saved) -> Product | None:
    """Return the product under an attention softmax; None if there is none.

    Args:
        softmax: node of the softmax.
        saved: reads a saved tensor of a node, or returns None.
    """
    waiting = [(child, 1.0) for child, _ in softmax.next_functions if child is not None]
    for _ in range(MAX_STEPS):
        if not waiting:
            break
        node, factor = waiting.pop()
        if str(node.name()).startswith("Bmm"):
            query, key = saved(node, "self"), saved(node, "mat2")
            if query is None or key is None:
                return None
            sides = [child for child, _ in node.next_functions[:2]]
            before = _factor_before(sides[0], saved) * _factor_before(sides[1], saved)
            return Product(query.detach(), key.detach(), factor, before)
        waiting += _below(node, factor, saved)
    return None


def _below(node: Node, factor: float, saved: Saved) -> list[tuple[Node, float]]:
    """Return the inputs of an operation on the path, with the factor accumulated so far."""
    name = operation(node)
    children = [child for child, _ in node.next_functions]
    if name in _SCALES:
        for place, attribute in enumerate(("other", "self")):
            number = _number(node, attribute, saved)
            child = children[place] if place < len(children) else None
            if number is None or child is None:
                continue
            if name == "div" and (place or not number):
                return []
            return [(child, factor / number if name == "div" else factor * number)]
        return []
    if name not in VIEWS and name not in _MASKS:
        return []
    return [(child, factor) for child in children if child is not None]


def _number(node: Node, attribute: str, saved: Saved) -> float | None:
    """Return the number by which a node multiplies or divides, which may be no tensor."""
    value = saved(node, attribute)
    if value is None:
        plain = getattr(node, f"_saved_{attribute}", None)
        return float(plain) if isinstance(plain, int | float) else None
    return float(value) if value.numel() == 1 else None


def _factor_before(node: Node | None, saved: Saved) -> float:
    """Return the number by which queries or keys were multiplied just before their product."""
    factor = 1.0
    for _ in range(MAX_STEPS):
        if node is None or operation(node) not in (*VIEWS, *_SCALES):
            break
        below = _below(node, factor, saved)
        if not below:
            break
        node, factor = below[0]
    return factor
