"""Gradients of Keras on PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def gradient(function: Callable[[Any], Any], values: Any) -> Any:
    """Return the gradient of a number with respect to an array."""
    import torch
    from keras import ops

    fed = ops.convert_to_tensor(values).clone().requires_grad_()  # on the device of the model
    with torch.enable_grad():
        (found,) = torch.autograd.grad(function(fed), [fed], allow_unused=True)
    return torch.zeros_like(fed) if found is None else found
