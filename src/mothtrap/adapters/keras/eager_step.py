"""One training step of a model, done eagerly from a given state and batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from mothtrap.adapters.keras import layers
from mothtrap.adapters.keras.guard import is_finite
from mothtrap.adapters.tensorflow.hooks import LOOKS, Replacements
from mothtrap.adapters.tensorflow.looks import Look
from mothtrap.adapters.tensorflow.origin import Bad, Search


class EagerStep:
    """A step that can be done once.

    Args:
        model: compiled.
        batch: tensors, in the form that `train_step` is given.
        restore: gives the model the state from which the step begins.
    """

    def __init__(self, model: Any, batch: Any, restore: Callable[[Any], None]) -> None:
        self._model, self._batch, self._restore = model, batch, restore
        self._path: list[str] = []

    def first_bad(self) -> Bad | None:
        """Do the step and return what made its loss, else its gradients, not finite."""
        search = Search(lambda: self._path[-1] if self._path else "")
        replacements = Replacements(lambda act, *args: act(*args))
        replacements.around(keras.layers.Layer, "__call__", self._entered, self._left)
        try:
            with search.listening():
                look = self._look()
        finally:
            replacements.undo()
        tensors = [target.value.tensor for target in look.targets]
        for each in look.applied:
            tensors += [slot.tensor for slot in each.gradients or () if slot is not None]
        found = (search.of(tensor) for tensor in tensors)
        return next((bad for bad in found if bad is not None), None)

    def is_bad(self) -> bool:
        """Do the step; return whether its loss or a gradient is not finite."""
        look = self._look()
        values = [target.value.read() for target in look.targets]
        for each in look.applied:
            values += [slot.read() for slot in each.gradients or () if slot is not None]
        return not all(map(is_finite, values))

    def _look(self) -> Look:
        self._restore(self._model)
        before = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        LOOKS.take()
        try:
            self._model.train_step(self._batch)
        finally:
            tf.config.run_functions_eagerly(before)
        looks = LOOKS.take()
        return looks[-1] if looks else Look()

    def _entered(self, layer: Any, *_: object) -> None:
        self._path.append(layers.name_of(layer))

    def _left(self, *_: object) -> None:
        if self._path:
            self._path.pop()
