"""Keras on JAX: the JAX adapter observes the compiled steps, and this adapter names their parts."""

from __future__ import annotations

from typing import Any

import keras

from mothtrap.adapters.jax.functions import OWNERS, Owner
from mothtrap.tracing.handle import BaseHandle
from mothtrap.tracing.replacements import Replacements


class KerasOnJaxHandle(BaseHandle):
    """Provides names for the JAX adapter, which observes the steps of `fit`.

    Keras keeps running means over an epoch; the loss of a step is computed from the underlying
    totals.
    """

    def install(self, replacements: Replacements) -> None:
        """Name weights and losses for the JAX adapter."""
        OWNERS.append(_owner_of)
        replacements.on_undo(lambda: OWNERS.remove(_owner_of))


def _owner_of(model: Any) -> Owner | None:
    if not isinstance(model, keras.Model):
        return None
    metrics = [id(variable) for variable in model.metrics_variables]
    tracker = getattr(model, "_loss_tracker", None)
    own = [id(getattr(tracker, name, None)) for name in ("total", "count")]

    def totals(out: Any) -> tuple[Any, Any] | None:
        """Return the values of the loss from the result of `train_step` or `test_step`."""
        state = out[1] if isinstance(out, tuple) and len(out) == 2 else None
        if not isinstance(state, tuple) or not state or not set(own) <= set(metrics):
            return None
        values = state[-1]
        if not isinstance(values, list) or len(values) != len(metrics):
            return None
        return values[metrics.index(own[0])], values[metrics.index(own[1])]

    return Owner(names=tuple(str(v.path) for v in model.trainable_variables), totals=totals)
