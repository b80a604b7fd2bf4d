"""Steps that the script itself skipped because a loss or gradient was not finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import layers
from mothtrap.adapters.keras.guard import is_finite
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.probes.probes import Applied, Look
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.adapters.tensorflow.probes.tape_targets import Target


def is_bad(looks: Sequence[Look]) -> bool:
    """Return whether a loss or gradient of an unapplied step is not finite.

    A script that scales the loss in half precision skips steps whose gradients overflow, which is
    not a fault. So gradients do not count in this case, nor does a loss that overflows.
    """
    for target in (target for look in looks for target in look.targets):
        value = target.value.read()
        if target.value.dtype == "float16":
            if np.isnan(value).any():
                return True
        elif not is_finite(value):
            return True
    found = [each for look in looks for each in look.in_branches if not each.scaled]
    return any(
        each.half_squares() is None and not all(is_finite(slot.read()) for _, slot in each.pairs())
        for each in found
    )


def gradients_of(looks: Sequence[Look], optimizer: Any = None) -> list[Applied]:
    """Return the gradients of a step, even if the script did not apply them.

    Args:
        looks: observations of the step.
        optimizer: optimizer that would have applied the gradients of an eager step; None if
            unknown.
    """
    for look in looks:
        if look.counter is None and not look.applied:
            found = _unapplied_in(look, optimizer)
            look.in_branches = [found] if found is not None else []
    return [each for look in looks for each in (*look.applied, *look.in_branches)]


def _unapplied_in(look: Look, optimizer: Any) -> Applied | None:
    pairs = [(layers.as_keras(v), g) for v, g in look.gradients if id(v) in LOOKS.optimized]
    if not pairs or keras.config.dtype_policy().compute_dtype == "float16":
        return None
    slots: list[Slot | None] = [Slot(gradient) for _, gradient in pairs]
    return Applied(optimizer, [v for v, _ in pairs], slots, scaled=False)


def losses_without_gradient(look: Look) -> list[Target]:
    """Return the last non-finite loss of an eager tape without a gradient, if any."""
    bad = [(value, place) for value, place in look.scalars if not is_finite(value.numpy())]
    return [Target(Slot(value), place, scaled=False) for value, place in bad[-1:]]


def is_in_half_precision(graph: Any) -> bool:
    """Return whether a program computes anything in float16."""
    return any(output.dtype == tf.float16 for op in graph.get_operations() for output in op.outputs)
