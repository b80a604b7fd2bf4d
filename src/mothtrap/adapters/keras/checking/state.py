"""Values of all variables of a model and its optimizer, which can be restored."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np


class ModelState:
    """State of a model: weights, optimizer, metrics, and random states.

    Args:
        model: a built model.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._values = [(v, array_of(v)) for v in _variables(model)]

    def restore(self) -> None:
        """Restore every value."""
        for variable, value in self._values:
            variable.assign(value)

    def restore_random(self, seed: int = 0, *, everywhere: bool = True) -> None:
        """Restore random states, or set others.

        Args:
            seed: 0 = the states from before; other seeds differ from it.
            everywhere: also the states of Python, NumPy, and the backend; TensorFlow then recreates
                every program, which takes 0.1 s.
        """
        if everywhere:
            keras.utils.set_random_seed(seed)
        for variable, value in self._values:
            if "seed_generator_state" in variable.path:
                variable.assign(value + np.array(seed, dtype=value.dtype))


def _variables(model: Any) -> list[Any]:
    optimizer = getattr(model, "optimizer", None)
    own = list(optimizer.variables) if optimizer is not None else []
    found = {id(v): v for v in [*model.variables, *_seeds(model), *own]}
    return [v for v in found.values() if keras.backend.standardize_dtype(v.dtype) != "string"]


def _seeds(model: Any) -> list[Any]:
    """Return the states of the generators of random layers."""
    layers = model._flatten_layers()
    generators = (getattr(layer, "seed_generator", None) for layer in layers)
    return [one.state for one in generators if one is not None]


def array_of(value: Any) -> Any:
    """Convert a tensor or variable to NumPy; 16-bit floats become float32."""
    if isinstance(value, np.ndarray):
        return value
    plain = getattr(value, "value", value)
    reads = hasattr(plain, "numpy") and keras.backend.backend() == "tensorflow"
    found = np.array(plain.numpy()) if reads else keras.ops.convert_to_numpy(plain)
    return found.astype(np.float32) if str(found.dtype) in ("bfloat16", "float16") else found
