"""Gradients of Keras on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def gradient(function: Callable[[Any], Any], values: Any) -> Any:
    """Return the gradient of a number with respect to an array."""
    import tensorflow as tf

    fed = tf.convert_to_tensor(values)
    with tf.GradientTape() as tape:
        tape.watch(fed)
        answer = function(fed)
    return tape.gradient(answer, fed, unconnected_gradients="zero")
