"""One training step of a model, done eagerly from a given state and batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from mothtrap.adapters.keras import layers
from mothtrap.adapters.keras.guard import is_finite
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.looks import Look, Slot
from mothtrap.adapters.tensorflow.origin import Bad, Place, Search
from mothtrap.tracing import frames
from mothtrap.tracing.replacements import Replacements


class EagerStep:
    """A step that can be done once.

    Args:
        model: compiled.
        batch: tensors, in the form that `train_step` is given.
        restore: gives the model the state from which the step begins.
    """

    def __init__(self, model: Any, batch: Any, restore: Callable[[Any], None]) -> None:
        self._model, self._batch, self._restore = model, batch, restore
        self._layers: list[Any] = []
        self._called = frames.user_location()

    def first_bad(self) -> Bad | None:
        """Do the step and return what made its loss, else its gradients, not finite."""
        search = Search(self._place)
        replacements = Replacements(lambda act, *args: act(*args))
        replacements.around(keras.layers.Layer, "__call__", self._entered, self._left)
        try:
            with search.listening():
                look = self._look()
        finally:
            replacements.undo()
        found = (search.of(slot.tensor) for slot in _judged(look))
        return next((bad for bad in found if bad is not None), None)

    def is_bad(self) -> bool:
        """Do the step; return whether its loss or a gradient is not finite."""
        return not all(is_finite(slot.read()) for slot in _judged(self._look()))

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

    def _place(self) -> Place:
        """The user's line that runs; within a layer of the library that which made the layer."""
        line = frames.user_location()
        if not self._layers:
            return Place(line, "")
        layer = self._layers[-1]
        made = layers.LOCATIONS.get(layer) if line == self._called else None
        return Place(made or line, layers.name_of(layer))

    def _entered(self, layer: Any, *_: object) -> None:
        self._layers.append(layer)

    def _left(self, *_: object) -> None:
        if self._layers:
            self._layers.pop()


def _judged(look: Look) -> Iterator[Slot]:
    """Losses, then gradients, but for those under a loss scale, which may overflow."""
    for target in look.targets:
        yield target.value
    for each in look.applied:
        if not each.scaled:
            yield from (slot for slot in each.gradients or () if slot is not None)
