"""Outputs and gradients of a Keras model, on any backend.

Shape suffixes: R = rows, K = outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import NotApplicable
from mothtrap.core.wrapped_models import Held, LayerOutput


class KerasNetwork:
    """A model as a network; see `core.wrapped_models.Network`.

    Args:
        model: the model.
        feed: converts rows to the form that the model takes.

    Attributes:
        is_holding: channels are currently held, so the model must be called layer by layer.
    """

    def __init__(self, model: Any, feed: Callable[[Any], Any]) -> None:
        self._model, self._feed = model, feed
        self.is_holding = False

    def outputs(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return the outputs, shape (rows, outputs)."""
        return _array(self._answer(self._feed(rows))).astype(np.float64)

    def layers(self, rows: Any) -> list[LayerOutput]:
        """Return the outputs of all layers without sublayers, in the order of their calls."""
        seen: dict[Any, Any] = {}

        def keep(layer: Any, output: Any) -> Any:
            if hasattr(output, "shape"):
                seen[layer] = output
            return output

        with self._hooked(keep):
            self._answer(self._feed(rows))
        return [
            LayerOutput(
                name=_name_of(layer), kind=_kind(layer), values=_last(layer, _array(output))
            )
            for layer, output in seen.items()
        ]

    def gradient(
        self, rows: Any, weight_RK: npt.NDArray[np.float64], layer: str = ""
    ) -> npt.NDArray[np.float32]:
        """Return the gradient of the weighted sum of the outputs; see `Network.gradient`."""
        import keras

        weights = np.asarray(weight_RK, np.float32)
        fed = np.asarray(self._feed(rows), np.float32)
        if not layer:
            return _array(_gradient(lambda x: keras.ops.sum(self._answer(x) * weights), fed))
        chosen = next(each for each in self._leaves() if _name_of(each) == layer)
        seen: list[Any] = []

        def of_change(change: Any) -> Any:
            def add(each: Any, output: Any) -> Any:
                return output + change if each is chosen else output

            with self._hooked(add):
                return keras.ops.sum(self._answer(fed) * weights)

        def keep(each: Any, output: Any) -> Any:
            if each is chosen:
                seen.append(output)
            return output

        with self._hooked(keep):
            self._answer(fed)
        nothing = np.zeros(tuple(seen[-1].shape), np.float32)
        return _last(chosen, _array(_gradient(of_change, nothing)))

    @contextmanager
    def shuffled(self, layers: Sequence[str], rng: np.random.Generator) -> Iterator[None]:
        """Shuffle the weights of some layers while a block runs."""
        chosen = [each for each in self._leaves() if _name_of(each) in layers]
        before = [each.get_weights() for each in chosen]
        try:
            for layer, weights in zip(chosen, before, strict=True):
                layer.set_weights([rng.permutation(w.ravel()).reshape(w.shape) for w in weights])
            yield
        finally:
            for layer, weights in zip(chosen, before, strict=True):
                layer.set_weights(weights)

    @contextmanager
    def holding(self, held: Held) -> Iterator[None]:
        """Hold channels at a value while a block runs; see `Network.holding`."""
        import keras

        def hold(layer: Any, output: Any) -> Any:
            if _name_of(layer) not in held:
                return output
            mask_U, value_U = held[_name_of(layer)]
            shape = _shape_of_channels(layer, output)
            mask = keras.ops.convert_to_tensor(mask_U.reshape(shape))
            value = keras.ops.convert_to_tensor(value_U.reshape(shape).astype("float32"))
            return keras.ops.where(mask, keras.ops.cast(value, output.dtype), output)

        with self._hooked(hold):
            self.is_holding = True
            try:
                yield
            finally:
                self.is_holding = False

    def _answer(self, fed: Any) -> Any:
        import keras

        output = self._model(fed, training=False)
        return keras.ops.reshape(output, (len(fed), -1))

    def _leaves(self) -> list[Any]:
        import keras

        return [
            layer
            for layer in self._model._flatten_layers(include_self=False)
            if not isinstance(layer, keras.layers.InputLayer)
            and not list(layer._flatten_layers(include_self=False))
        ]

    @contextmanager
    def _hooked(self, act: Callable[[Any, Any], Any]) -> Iterator[None]:
        """Replace the output of each leaf layer by the result of a function."""

        def acting(layer: Any) -> Callable[..., Any]:
            own = layer.call
            return lambda *args, **kwargs: act(layer, own(*args, **kwargs))

        leaves = self._leaves()
        for layer in leaves:  # not by setattr: Keras would track the function
            object.__setattr__(layer, "call", acting(layer))
        try:
            yield
        finally:
            for layer in leaves:
                object.__delattr__(layer, "call")


def _gradient(function: Callable[[Any], Any], values: npt.NDArray[np.float32]) -> Any:
    """Return the gradient of a number with respect to an array."""
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        from mothtrap.adapters._models.keras.on_tensorflow import gradient
    elif backend == "torch":
        from mothtrap.adapters._models.keras.on_torch import gradient
    elif backend == "jax":
        from mothtrap.adapters._models.keras.on_jax import gradient
    else:
        raise NotApplicable(f"gradients of Keras on {backend} are not supported")
    return gradient(function, values)


def _name_of(layer: Any) -> str:
    """Return the name of a layer, prefixed with the names of the models that contain it."""
    return str(getattr(layer, "path", "") or layer.name)


def _kind(layer: Any) -> Literal["linear", "convolution", "other"]:
    import keras

    if isinstance(layer, keras.layers.Dense):
        return "linear"
    kinds = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
    return "convolution" if isinstance(layer, kinds) else "other"


def _last(layer: Any, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return an output with its channels on the last axis."""
    is_first = getattr(layer, "data_format", "") == "channels_first"
    return np.moveaxis(values, 1, -1) if is_first and values.ndim > 2 else values


def _shape_of_channels(layer: Any, output: Any) -> list[int]:
    """Return the shape in which one value for each channel fits an output of the layer."""
    shape = [1] * len(output.shape)
    is_first = getattr(layer, "data_format", "") == "channels_first" and len(shape) > 2
    shape[1 if is_first else -1] = -1
    return shape


def _array(values: Any) -> npt.NDArray[np.float32]:
    import keras

    return np.array(keras.ops.convert_to_numpy(values), np.float32)
