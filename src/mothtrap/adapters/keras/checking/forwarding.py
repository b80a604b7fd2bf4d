"""The call of a Keras model with one batch, as a function of its inputs."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from mothtrap.adapters.keras.checking.state import ModelState, array_of
from mothtrap.checks.step import Array, Cut, batch_axis_of
from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.checks import LayerRow

DISTURBANCE = 1.0
"""Size of the change of a layer's weights, as a share of their size; chosen by hand."""


class KerasForward:
    """Calls the model repeatedly, from the same state each time.

    Args:
        model: a built model.
        x: inputs of the batch: an array, or a structure of arrays.
        location: `file:line` of the call to `fit`.
    """

    def __init__(self, model: Any, x: Any, location: str | None) -> None:
        self._model, self._x, self.location = model, x, location
        self._state = ModelState(model)
        self.model = type(model).__name__
        self.inputs: Mapping[str, Array] = dict(_named(x))
        self.rows = batch_axis_of(self.inputs)
        self.kinds = frozenset(type(layer).__name__ for layer in model._flatten_layers())
        self.channels = 1 if keras.config.image_data_format() == "channels_first" else -1

    def outputs(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        training: bool = False,
        seed: int = 0,
    ) -> tuple[Array, ...]:
        """Return the floating-point outputs; see `checks.step.Forward`."""
        self._state.restore()
        self._state.restore_random(seed)
        try:
            found = self._model(_replaced(self._x, inputs or {}), training=training)
        finally:
            self._state.restore()
        arrays = map(array_of, keras.tree.flatten(found))
        return tuple(array for array in arrays if array.dtype.kind == "f")

    def parts(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        training: bool = False,
        seed: int = 0,
    ) -> Sequence[tuple[str, Array]]:
        """Return the output of each layer of a functional model; empty for other models."""
        layers = [one for one in getattr(self._model, "layers", ()) if _has_one_output(one)]
        if training or not layers or not getattr(self._model, "inputs", None):
            return []
        inner = keras.Model(self._model.inputs, [layer.output for layer in layers])
        self._state.restore_random(seed)
        found = keras.tree.flatten(inner(_replaced(self._x, inputs or {}), training=False))
        return [(one.name, array_of(out)) for one, out in zip(layers, found, strict=True)]

    def own_backwards(self) -> Mapping[str, bool]:
        """Return an empty list, because derivatives along a direction require PyTorch."""
        return {}

    def stale(self) -> None:
        """Return nothing, because Keras saves all variables of a model."""

    def layers(self) -> Sequence[LayerRow]:
        """Return the layers without sublayers; see `checks.step.Forward`."""
        return [
            LayerRow(
                name=layer.path or layer.name,
                kind=type(layer).__name__,
                output=_shape(layer, self.rows),
                parameters=layer.count_params() if layer.built else 0,
                trained=bool(layer.trainable_weights),
            )
            for layer in self._model._flatten_layers(include_self=False)
            if not list(layer._flatten_layers(include_self=False))
        ]

    def left_out(self) -> Sequence[str]:
        """Return the layers that were called on a tensor of the model but belong to no model."""
        waiting, found = _operations(self._model), dict[int, Any]()
        known = set(map(id, waiting))
        while waiting:
            for node in getattr(waiting.pop(), "_outbound_nodes", ()):
                if id(node.operation) not in known:
                    known.add(id(node.operation))
                    waiting.append(node.operation)
                    found[id(node.operation)] = node.operation
        if found:
            models = (one for one in gc.get_objects() if isinstance(one, keras.Model))
            used = {id(part) for one in models for part in _operations(one)}
            found = {key: one for key, one in found.items() if key not in used}
        return [one.name for one in found.values() if getattr(one, "weights", None)]

    def drops(self) -> bool:
        """Return False, because a Keras layer drops values in evaluation only on request."""
        return False

    def influence(self, seeds: int = 2) -> Mapping[str, Array]:
        """Return the summed absolute gradient of the outputs with respect to each input value.

        Raises:
            NotApplicable: the backend is not TensorFlow.
        """
        tf = tensorflow()
        self._state.restore()
        leaves = {path: tf.constant(a) for path, a in self.inputs.items() if a.dtype.kind == "f"}
        found: dict[str, Array] = {}
        for seed in range(seeds) if leaves else ():
            with tf.GradientTape() as tape:
                tape.watch(list(leaves.values()))
                outputs = keras.tree.flatten(
                    self._model(_replaced(self._x, leaves), training=False)
                )
                rng = np.random.default_rng(1000 + seed)
                value = sum(
                    tf.reduce_sum(tf.cast(out, tf.float32) * rng.normal(size=out.shape))
                    for out in outputs
                )
            for path, gradient in tape.gradient(value, leaves).items():
                if gradient is not None:
                    found[path] = found.get(path, 0) + np.abs(array_of(gradient))
        return found

    def gradients(self, *, double: bool) -> Mapping[str, Array]:  # noqa: ARG002
        """Raise an error, because a Keras model must be rebuilt to compute in float64."""
        raise NotApplicable("Keras layers compute only in the precision they were created with")

    def exact_outputs(self) -> tuple[Array, ...]:
        """Raise an error: see `gradients`."""
        raise NotApplicable("Keras layers compute only in the precision they were created with")

    def directional(self, seed: int) -> tuple[float, float, float]:  # noqa: ARG002
        """Raise an error: see `gradients`."""
        raise NotApplicable("Keras layers compute only in the precision they were created with")

    def cut(self, module: str) -> Cut:
        """Return whether anything uses the outputs of a layer."""
        layer = next((one for one in self._model._flatten_layers() if one.path == module), None)
        if layer is None or not layer.weights:
            return Cut(reason="unknown")
        usual = self.outputs()
        self._state.restore()
        rng = np.random.default_rng(0)
        for variable in layer.weights:
            value = array_of(variable)
            if value.dtype.kind == "f":
                noise = rng.normal(size=value.shape) * (np.abs(value).mean() + DISTURBANCE)
                variable.assign(value + noise.astype(value.dtype))
        found = keras.tree.flatten(self._model(self._x, training=False))
        changed = [array_of(out) for out in found]
        self._state.restore()
        floats = [out for out in changed if out.dtype.kind == "f"]
        if all(map(np.array_equal, usual, floats)):
            return Cut(reason="unused")
        return Cut(reason="detached", last=module)


def _operations(model: Any) -> list[Any]:
    """Return the layers of a model, and the functions between them."""
    return [*model._flatten_layers(), *getattr(model, "operations", ())]


def tensorflow() -> Any:
    """Return TensorFlow.

    Raises:
        NotApplicable: Keras computes on another backend.
    """
    if keras.backend.backend() != "tensorflow":
        raise NotApplicable(
            f"Keras gradients are checked only on TensorFlow, not on {keras.backend.backend()}"
        )
    import tensorflow as tf

    return tf


def _named(x: Any) -> list[tuple[str, Array]]:
    found = keras.tree.flatten_with_path(x)
    return [(".".join(map(str, path)) or "0", np.asarray(leaf)) for path, leaf in found]


def _replaced(x: Any, arrays: Mapping[str, Any]) -> Any:
    """Return the inputs, with the arrays at the given paths replaced."""
    leaves = [arrays.get(path, leaf) for path, leaf in _named(x)]
    return keras.tree.pack_sequence_as(x, [keras.ops.convert_to_tensor(one) for one in leaves])


def _shape(layer: Any, rows: int) -> tuple[int, ...]:
    """Return the output shape of a layer of a functional model; empty for other models."""
    if not _has_one_output(layer):
        return ()
    return tuple(rows if size is None else int(size) for size in layer.output.shape)


def _has_one_output(layer: Any) -> bool:
    try:
        return layer.weights is not None and hasattr(layer.output, "shape")
    except (AttributeError, ValueError):
        return False
