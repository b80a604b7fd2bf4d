"""Recurrent layers that get sequences of one time step."""

from __future__ import annotations

from typing import Any, Final

import keras

from mothtrap.adapters.keras import internals, layers
from mothtrap.core.facts.layers import SingleTimeSteps

SHOWN: Final = 8


def single(model: Any, step: int) -> SingleTimeSteps | None:
    """Describe the recurrent layers of a model that see one time step; None if there are none.

    Layers that keep their state, or that get an initial state, continue a longer sequence.

    Args:
        model: the model.
        step: step of the training.
    """
    found = [
        (layer, shape)
        for layer in internals.leaves(model)
        if isinstance(layer, keras.layers.RNN)
        and not layer.stateful
        and layer.trainable_variables
        and (shape := internals.sequences_shape(layer)) is not None
        and shape[1] == 1
    ]
    if not found:
        return None
    first, shape = found[0]
    return SingleTimeSteps(
        step=step,
        layers=tuple(dict.fromkeys(layers.name_of(layer) for layer, _ in found))[:SHOWN],
        features=int(shape[-1] or 0),
        location=layers.LOCATIONS.get(first) or layers.LOCATIONS.get(model),
    )
