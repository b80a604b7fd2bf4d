"""Calls of layers and models, while a step is traced or runs eagerly."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import keras
import tensorflow as tf

from mothtrap.adapters.keras import added_masks, internals, layers
from mothtrap.adapters.keras.causality import sight_of
from mothtrap.adapters.keras.evaluations import Outside, input_slot, shape_of
from mothtrap.adapters.keras.steps import Steps
from mothtrap.adapters.tensorflow import internals as tensorflow_names
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.probes.probes import LayerCall, Look, ModelCall
from mothtrap.adapters.tensorflow.probes.slots import MAX_ROWS, Slot
from mothtrap.core.adapters import Job
from mothtrap.tracing.replacements import drop_own_frame
from mothtrap.tracing.source import frames

MAX_LAYERS: Final = 256
MAX_OPERATIONS: Final = 256
"""Operations behind a layer in which its source is searched."""


@dataclass(slots=True)
class Made:
    """Source of a tensor: the layer, its inputs, and whether the tensor is data."""

    layer: Any
    source: int
    data: bool
    call: LayerCall | None

    @property
    def chain(self) -> tuple[str, ...]:
        """Operations of the layer, last first."""
        return layers.chain_of(self.layer)


class LayerCalls:
    """Receives layer calls from Keras, and adds them to the record of the program or step.

    Args:
        job: job of the training.
        steps: receives the gradients passed to optimizers.
        outside: receives calls that no tape records.
    """

    def __init__(self, job: Job, steps: Steps, outside: Outside) -> None:
        self._job, self._steps, self._outside = job, steps, outside
        self._here = _Thread()

    def around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method that calls a layer, recording its inputs and outputs."""
        here, contain = self._here, self._job.contain

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not LOOKS.tapes or contain(internals.is_symbolic):
                try:
                    if LOOKS.tapes:
                        return original(self, *args, **kwargs)
                    return outside.call(self, original, args, kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
            is_root = here.depth == 0
            if is_root:
                here.root, here.trained, here.look = self, False, contain(LOOKS.current)
                here.called_at = contain(frames.user_location)
                contain(root_called, self)
                here.operations = contain(added_masks.count)
            here.depth += 1
            training = contain(internals.training_flag, self, args, kwargs)
            try:
                result = original(self, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                here.depth -= 1
            if is_root:
                contain_part("inputs", model_called, self, args, kwargs, result, training)
                contain_part("collections", asked, self, args, kwargs, result)
            contain(after, self, args, kwargs, result, training)
            return result

        after, model_called, outside = self._layer_called, self._model_called, self._outside
        contain_part, asked = self._job.contain_part, self._take_whole
        root_called = self._steps.loops.called
        return call

    def _take_whole(
        self, model: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Store the inputs and outputs of a model that a collection requested."""
        look = LOOKS.current()
        if look is not None and not look.why and isinstance(model, keras.Model):
            given = [*args, *(value for name, value in kwargs.items() if name != "training")]
            given = given[0] if len(given) == 1 else given
            self._steps.asked.called(look, model, given, result)

    def _model_called(
        self, model: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, training: Any
    ) -> None:
        """Record the first model that a step calls, and all as possible target networks."""
        if isinstance(model, keras.Model):
            self._steps.networks.called(model)
        look = LOOKS.current() if isinstance(model, keras.Model) else None
        if look is None or look.why or look.models:
            return
        if self._passes_by():
            return
        values = [value for value in tf.nest.flatten((args, kwargs)) if tf.is_tensor(value)]
        call = ModelCall(
            model=model,
            training=training,
            given=input_slot(values[0], behind=look) if len(values) == 1 else None,
            shape=shape_of(result),
            location=self._here.called_at,
        )
        look.models.append(call)

    def _layer_called(
        self, layer: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, training: Any
    ) -> None:
        gave = _first_tensor(result)
        if gave is None:
            return
        look = LOOKS.current()
        if look is None:
            return
        if self._here.depth == 0:
            layers.own_all(layer)
            for made in map(look.made.get, map(id, tf.nest.flatten(result))):
                if isinstance(made, Made) and made.call is not None:
                    made.call.last = True
            before = self._here.operations
            if before is not None and not look.why:
                added_masks.look_for(look, before)
            look.flush()
        sight = sight_of(layer, args, kwargs)
        if sight and len(look.sights) < MAX_LAYERS and not self._passes_by():
            query = _first_tensor([kwargs.get("query"), *args, *kwargs.values()])
            look.sights.append((sight, frames.user_location(), _is_of_decoder(look, query)))
        if not internals.is_leaf(layer):
            return
        given = _first_tensor([*args, *kwargs.values()])
        source = look.made.get(id(given))
        known = source.data if isinstance(source, Made) else not self._here.trained
        trains = bool(layer.trainable_variables)
        call = self._kept(look, layer, given, gave, training, known)
        look.made[id(gave)] = Made(layer, id(given), known and not trains, call)
        look.held += [given, gave]
        self._here.trained = self._here.trained or trains

    def _passes_by(self) -> bool:
        """Return whether layers of this step are not described because it is eager and light."""
        return tf.executing_eagerly() and not self._job.is_full()

    def _kept(
        self, look: Look, layer: Any, given: Any, gave: Any, training: Any, data: bool
    ) -> LayerCall | None:
        if look.why or len(look.layers) >= MAX_LAYERS:
            return None
        if self._passes_by():
            return None
        looks_up = layers.looks_up(layer)
        weighted = looks_up or layers.kernel_of(layer) is not None
        asked = self._steps.asked.asks("input")
        call = LayerCall(
            layer=layer,
            root=self._here.root,
            training=training,
            given=_slot(given, look, integers=looks_up) if weighted or asked else None,
            gave=_slot(gave, look),
            data=data and weighted,
            later=not data and weighted and tensorflow_names.is_argument(given),
            called_at=self._here.called_at,
            mean_square=_mean_square(layers.kernel_of(layer), look),
        )
        look.layers.append(call)
        if look is not self._here.look:  # a function inside the model, which nothing flushes later
            look.flush()
        return call


class _Thread(threading.local):
    """The layers that are being called, outermost first."""

    depth: int = 0
    root: Any = None
    called_at: str | None = None
    look: Look | None = None
    operations: int | None = None
    trained: bool = False


def _first_tensor(values: Any) -> Any | None:
    for value in tf.nest.flatten(values):
        if tf.is_tensor(value) and not isinstance(value, keras.KerasTensor):
            return value
    return None


def _is_of_decoder(look: Look, tensor: Any) -> bool:
    """Return whether a tensor of a program is made of an argument that later layers take."""
    if tf.executing_eagerly() or not any(call.later for call in look.layers):
        return False
    waiting, seen = deque([tensor]), set[int]()
    while waiting and len(seen) < MAX_OPERATIONS:
        one = waiting.popleft()
        made = look.made.get(id(one))
        if isinstance(made, Made) and made.call is not None and made.call.later:
            return True
        if id(one.op) not in seen:
            seen.add(id(one.op))
            waiting += list(one.op.inputs)
    return False


def _slot(tensor: Any, look: Look, *, integers: bool = False) -> Slot | None:
    if not isinstance(tensor, tf.Tensor):
        return None
    if not (tensor.dtype.is_floating or (integers and tensor.dtype.is_integer)):
        return None
    return Slot(tensor, rows=MAX_ROWS, behind=look)


def _mean_square(kernel: Any, look: Look) -> Slot | None:
    """Return the mean square of a kernel before the step changes it."""
    value = getattr(kernel, "_value", None)  # since Keras 3.0; `value` may be cast in a scope
    if not isinstance(value, tf.Variable) or not value.dtype.is_floating:
        return None
    tensor = value.read_value()

    def reduced(tensor: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.cast(tensor, tf.float32)))

    return Slot(tensor, behind=look, reduced=reduced)
