"""Gradients of Keras on JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def gradient(function: Callable[[Any], Any], values: Any) -> Any:
    """Return the gradient of a number with respect to an array."""
    import jax

    return jax.grad(function)(jax.numpy.asarray(values))
