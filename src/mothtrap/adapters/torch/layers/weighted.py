"""Layers with a matrix of weights: their identity, units, and gain."""

from __future__ import annotations

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_plain

_UNITS_SECOND = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_NO_MATRIX = (nn.Embedding, nn.EmbeddingBag)
"""Embedding tables: a row is looked up, and nothing is multiplied."""
MAX_VALUES = 30_000
"""Maximum number of inspected values: 1 % accuracy. With fewer than 32,768 (`GRAIN_SIZE` in ATen),
torch wakes no other thread, which would cost milliseconds on a busy machine."""
GATES = {"LSTM": 4, "GRU": 3, "LSTMCell": 4, "GRUCell": 3}
"""Blocks of rows in the weights of recurrent layers, one for each gate."""


def weight_of(module: nn.Module) -> torch.Tensor | None:
    """Return the matrix by which a module multiplies its input; None if it has none."""
    if isinstance(module, _NO_MATRIX):
        return None
    own = module._parameters  # not a dictionary in a scripted module
    for name in ("weight", "weight_ih_l0", "weight_ih"):
        if name not in own:
            continue
        weight = own[name]
        if isinstance(weight, nn.Parameter) and weight.ndim >= 2 and is_plain(weight):
            return weight
    return None


def is_weighted(module: nn.Module) -> bool:
    """Return whether a module has a matrix by which it multiplies its input."""
    return weight_of(module) is not None


def is_convolution(module: nn.Module) -> bool:
    """Return whether the features of a module's input and output are along axis 1."""
    return type(module).__name__.startswith(("Conv", "LazyConv"))


def normalizes(module: nn.Module) -> bool:
    """Return whether a module normalizes its input."""
    return "Norm" in type(module).__name__ and not module._modules


def unit_axis(module_type: str) -> int:
    """Return the axis of a weight along which the layer's units lie."""
    return 1 if module_type in _UNITS_SECOND else 0


def fan_in(weight: torch.Tensor, module_type: str) -> int:
    """Return the number of inputs of each unit of a layer."""
    return max(1, weight.numel() // max(1, weight.shape[unit_axis(module_type)]))


def spaced(values: torch.Tensor) -> torch.Tensor:
    """Return about `MAX_VALUES` values at most, equally spaced along the last axis."""
    return values[..., :: 1 + values.numel() // MAX_VALUES]


def squared_gain(weight: torch.Tensor, module_type: str) -> torch.Tensor:
    """Return the mean square of the weights times the fan-in, a 0-d tensor."""
    values = spaced(weight.detach().flatten())
    return values.square().mean(dtype=torch.float32) * fan_in(weight, module_type)
