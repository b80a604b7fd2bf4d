"""Losses that compare every prediction with every target."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

DIFFERENCES: Final = frozenset({"Sub", "SquaredDifference"})
ELEMENTWISE: Final = frozenset(
    {
        *("Mean", "Sum", "Square", "Abs", "Mul", "AddV2", "AddN", "Pow", "RealDiv", "DivNoNan"),
        *("Cast", "Identity", "Maximum", "Minimum", "SelectV2", "Neg", "Sqrt", "Sign", "Log1p"),
    }
)
"""Operations between a difference and the loss computed from it."""
MAX_OPERATIONS: Final = 64
MAX_ELEMENTS: Final = 1 << 20
"""Maximum number of elements of an eager difference that is compared with the loss."""
TOLERANCE: Final = 1e-3


def broadcast_under(loss: Any) -> Any:
    """Return the difference of (N, 1) and (N,) under a program's loss; None if there is none."""
    waiting, seen = [loss.op], set[int]()
    while waiting and len(seen) < MAX_OPERATIONS:
        operation = waiting.pop(0)
        if id(operation) in seen:
            continue
        seen.add(id(operation))
        if operation.type in DIFFERENCES:
            if _is_broadcast(operation):
                return operation.outputs[0]
        elif operation.type in ELEMENTWISE:
            waiting += [tensor.op for tensor in operation.inputs]
    return None


def is_made_of(loss: Any, difference: Any) -> bool:
    """Return whether an eager loss is a mean or sum of squared or absolute differences."""
    if math.prod(difference.shape) > MAX_ELEMENTS:
        return False
    value, size_N = float(loss), np.abs(difference.numpy().astype(np.float64)).ravel()
    square = float(np.square(size_N).mean())
    means = (square, square / 2, math.sqrt(square), float(size_N.mean()))
    known = (*means, *(mean * len(size_N) for mean in means))
    return any(math.isclose(value, one, rel_tol=TOLERANCE) for one in known)


def _is_broadcast(operation: Any) -> bool:
    return len(operation.inputs) == 2 and is_broadcast(*operation.inputs)


def is_broadcast(*operands: Any) -> bool:
    """Return whether one of two tensors has the shape (N, 1) and the other (N,)."""
    if any(tensor.shape.rank is None for tensor in operands):
        return False
    left, right = (tuple(size or 0 for size in tensor.shape) for tensor in operands)
    column, row = (left, right) if len(left) == 2 else (right, left)
    is_outer = len(column) == 2 and column[1] == 1 and column[0] != 1
    return is_outer and len(row) == 1 and row[0] != 1 and (not row[0] or column[0] in (0, row[0]))
