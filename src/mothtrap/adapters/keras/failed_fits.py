"""Models whose `fit` ended with an exception, for an explanation."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import layers
from mothtrap.adapters.tensorflow.scene import MadeLayer, Scene

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class FailedFits:
    """Remembers the latest `fit` that raised an exception, without keeping the model alive."""

    def __init__(self) -> None:
        self._error: int | None = None
        self._model: weakref.ref[Any] | None = None
        self._unlabeled = False

    def note(
        self, error: BaseException, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Record the exception raised by a `fit`, and the arguments of the `fit`."""
        given = dict(zip(("x", "y"), args, strict=False)) | dict(kwargs)
        is_array = isinstance(given.get("x"), np.ndarray | tf.Tensor)
        self._unlabeled = is_array and given.get("y") is None
        self._error, self._model = id(error), weakref.ref(model)

    def scene(self, error: BaseException) -> Scene:
        """Describe the model in which an exception was raised."""
        model = self._model() if self._model is not None and self._error == id(error) else None
        if model is None:
            return Scene(layers=tuple(_layers()))
        return Scene(
            layers=tuple(_layers()),
            fitted=True,
            loss=_name(getattr(model, "loss", None)),
            loss_at=layers.COMPILED.get(model),
            unlabeled=self._unlabeled,
        )


def _layers() -> Iterator[MadeLayer]:
    for layer, place in list(layers.LOCATIONS.items()):
        # the exception may have come from the constructor of a layer
        if isinstance(layer, keras.layers.Layer) and hasattr(layer, "name"):
            is_table = isinstance(layer, keras.layers.Embedding)
            rows = int(layer.input_dim) if is_table else None
            kind = layers.type_of(layer)
            yield MadeLayer(name=layer.name, kind=kind, location=place, rows=rows)


def _name(loss: Any) -> str:
    """Return the name of the loss that a model was compiled with; empty if there are several."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if isinstance(loss, keras.losses.Loss):
        function = getattr(loss, "fn", None)
        return getattr(function, "__name__", "") or _WORDS.sub("_", type(loss).__name__).lower()
    return str(getattr(loss, "__name__", ""))
