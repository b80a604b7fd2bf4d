"""Connections between the layers of a model, as far as known without a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mothtrap.adapters.keras import internals, layers

_WEIGHTED: Final = frozenset({"Dense", "Conv1D", "Conv2D", "Conv3D"})
_LINEAR: Final = frozenset(
    {
        *("InputLayer", "Flatten", "Reshape", "Permute", "Identity", "Dropout", "SpatialDropout2D"),
        *("Rescaling", "Normalization", "AveragePooling1D", "AveragePooling2D", "ZeroPadding2D"),
        *("GlobalAveragePooling1D", "GlobalAveragePooling2D", "UpSampling2D", "Concatenate", "Add"),
        *("GaussianNoise", "ActivityRegularization"),
    }
)
"""Layers that are linear, or only perturb their input in training."""

_LAST: Final = frozenset({"Activation", "Softmax"})
"""Nonlinear layers with which a model may end."""


def linear_layers(model: Any) -> Sequence[Any]:
    """Return the hidden layers of a model that is linear up to its last layer.

    None for a model with a custom `call`, and for a model whose hidden layers are all narrower than
    its input and output: their product has a lower rank than one layer.
    """
    if layers.type_of(model) not in ("Sequential", "Functional"):
        return ()
    leaves = list(internals.leaves(model))
    weighted = [layer for layer in leaves if layers.type_of(layer) in _WEIGHTED]
    if len(weighted) < 2 or not set(map(layers.type_of, leaves)) <= _WEIGHTED | _LINEAR | _LAST:
        return ()
    *hidden, last = weighted
    before = leaves[: leaves.index(last)]
    if any(layers.activation_of(layer) not in ("", "linear") for layer in before):
        return ()
    ends = layers.fan_in(weighted[0].kernel), int(last.kernel.shape[-1])
    narrow = all(int(layer.kernel.shape[-1]) < min(ends) for layer in hidden)
    return () if narrow else hidden
