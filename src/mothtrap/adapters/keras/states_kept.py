"""Recurrent layers of a model that keep their state from batch to batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import keras

from mothtrap.adapters.keras import internals, layers
from mothtrap.adapters.keras.fits import Fit
from mothtrap.core.facts.data import LoaderBegan, StatesKept

SHOWN: Final = 8
PER_BATCH: Final = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
"""Methods of a callback that may reset the states after each batch."""


def by(fit: Fit, given: Mapping[str, Any], loader: LoaderBegan) -> StatesKept | None:
    """Describe the stateful layers of a model that is passed to `fit`; None if there are none.

    Args:
        fit: the call that begins.
        given: its arguments.
        loader: its batches.
    """
    kept = [
        layers.name_of(layer)
        for layer in internals.leaves(fit.model)
        if isinstance(layer, keras.layers.RNN) and layer.stateful
    ]
    if not kept or _may_reset(given.get("callbacks")):
        return None
    return StatesKept(
        step=loader.step,
        layers=tuple(kept[:SHOWN]),
        shuffled=loader.sampler == "shuffled",
        batches=loader.batches or 0,
        location=fit.location,
    )


def _may_reset(callbacks: Any) -> bool:
    """Return whether a callback of the script runs code in each batch."""
    listed = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    own = (one for one in listed if not type(one).__module__.startswith("keras."))
    return any(
        getattr(type(one), name, None) is not getattr(keras.callbacks.Callback, name)
        for one in own
        if isinstance(one, keras.callbacks.Callback)
        for name in PER_BATCH
    )
