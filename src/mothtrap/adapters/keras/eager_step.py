"""Repeat a training step eagerly, and inspect each of its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import keras
import tensorflow as tf

from mothtrap.adapters.keras import layers
from mothtrap.adapters.keras.guard import is_finite
from mothtrap.adapters.keras.refused import losses_without_gradient
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.origin import Bad, Place, Search
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.source import frames


class EagerStep:
    """A step that can be repeated.

    Args:
        act: function that runs the step.
        restore: function that restores the state from before the step.
    """

    def __init__(self, act: Callable[[], object], restore: Callable[[], object]) -> None:
        self._act, self._restore = act, restore

    def first_bad(self) -> Bad | None:
        """Repeat the step; return the origin of a non-finite loss or non-finite gradients."""
        with OperationLog() as watch:
            look = self._look()
        return watch.first_bad(look)

    def is_bad(self) -> bool:
        """Repeat the step; return whether its loss or a gradient is not finite."""
        return not all(is_finite(slot.read()) for slot in _judged(self._look()))

    def _look(self) -> Look:
        self._restore()
        before = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        LOOKS.take()
        try:
            self._act()
        finally:
            tf.config.run_functions_eagerly(before)
        look = LOOKS.eager
        LOOKS.take()
        return look


class OperationLog:
    """Records eager operations, as a context manager or between `__enter__` and `__exit__`."""

    def __init__(self) -> None:
        self._layers: list[Any] = []
        self._called = frames.user_location()
        self._search = Search(self._place)
        self._open = ExitStack()

    def __enter__(self) -> OperationLog:
        """Begin to record."""
        replacements = Replacements(lambda act, *args: act(*args))
        self._open.callback(replacements.undo)
        replacements.around(keras.layers.Layer, "__call__", self._entered, self._left)
        self._open.enter_context(self._search.listening())
        return self

    def __exit__(self, *_: object) -> None:
        """Stop recording."""
        self._open.close()

    def first_bad(self, look: Look) -> Bad | None:
        """Return the operation that made a step's loss, or its gradients, not finite."""
        found = (self._search.of(slot.tensor) for slot in _judged(look))
        return next((bad for bad in found if bad is not None), None)

    def _place(self) -> Place:
        """Return the user's running line; in a library's layer, the line that created the layer."""
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
    """Yield losses, then gradients, except under a loss scale, where they may overflow."""
    for target in look.targets or losses_without_gradient(look):
        yield target.value
    for each in look.applied:
        if not each.scaled:
            yield from (slot for slot in each.gradients or () if slot is not None)
    if not look.applied and keras.config.dtype_policy().compute_dtype != "float16":
        yield from (Slot(gradient) for _, gradient in look.gradients)
