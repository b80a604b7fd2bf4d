"""Masks that a layer of the script adds to the scores of an attention.

`keras.layers.MultiHeadAttention` converts its mask; attention written by hand may forget to. The
operations of a program are inspected while it is traced, once for each model that it calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow.probes.probes import AddedMask, Look
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.core.adapters import Job
from mothtrap.core.facts.layers import MaskOfOnes
from mothtrap.tracing.source import frames

SUMS: Final = frozenset({"AddV2", "Add"})
WEIGHTS: Final = frozenset({"ReadVariableOp", "ResourceGather", "VariableV2"})
SIZES: Final = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Operations whose results do not depend on values."""
MAX_OPERATIONS: Final = 64
"""Operations that may make a mask."""
MAX_MASKS: Final = 4
MAX_ELEMENTS: Final = 1 << 20


def count() -> int | None:
    """Return the number of operations of the program that is traced; None in an eager step."""
    if tf.executing_eagerly():
        return None
    return len(tf.compat.v1.get_default_graph().get_operations())


def look_for(look: Look, before: int) -> None:
    """Add the masks among the operations that were added to a program since it had `before`."""
    added = tf.compat.v1.get_default_graph().get_operations()[before:]
    for operation in added:
        if operation.type == "Softmax" and len(look.masks) < MAX_MASKS:
            scores = operation.inputs[0]
            if scores.op.type in SUMS and (scores.shape.rank or 0) >= 3:
                look.masks += _masks(look, scores.op)


def report(look: Look, job: Job, step: int) -> None:
    """Report masks of zeros and ones."""
    for mask in look.masks:
        if set(np.unique(mask.values.read().astype(np.float32)).tolist()) == {0.0, 1.0}:
            job.fact(MaskOfOnes(step=step, shape=mask.values.shape, location=mask.location))


def _masks(look: Look, addition: Any) -> list[AddedMask]:
    """Return the terms of a sum that do not depend on weights; at most one."""
    found = [term for term in addition.inputs if _is_mask(term)]
    if len(found) != 1 or len(addition.inputs) != 2:
        return []
    place = _line(addition.traceback)
    return [AddedMask(values=Slot(found[0], behind=look), location=place)]


def _is_mask(tensor: Any) -> bool:
    shape = tensor.shape
    if shape.rank is None or shape.rank < 2 or not tensor.dtype.is_floating:
        return False
    if math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
        return False
    waiting, seen = [tensor.op], set[int]()
    while waiting:
        operation = waiting.pop()
        if id(operation) in seen:
            continue
        seen.add(id(operation))
        if operation.type in WEIGHTS or len(seen) > MAX_OPERATIONS:
            return False
        if operation.type not in SIZES:
            waiting += [one.op for one in operation.inputs]
    return True


def _line(stack: Sequence[Any]) -> str | None:
    """Return the innermost line of the script in the stack of an operation."""
    for entry in reversed(list(stack)):
        if frames.is_users_file(entry.filename):
            return frames.line_of(entry.filename, entry.lineno)
    return None
