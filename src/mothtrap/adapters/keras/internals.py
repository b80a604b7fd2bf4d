"""Private names of Keras that the adapter uses, tested with Keras 3.15."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import numpy as np

TRIED: Final = ("3.15",)
"""Versions with which all of this was tested."""


FLOOR: Final = (3, 3)
"""Oldest version that is observed."""


def is_tried() -> bool:
    """Return whether the private names were tested with the installed version."""
    return keras.version().rpartition(".")[0] in TRIED


def is_new_enough() -> bool:
    """Return whether the installed version is supported."""
    return tuple(int(part) for part in keras.version().split(".")[:2]) >= FLOOR


def trainer_type() -> Any:
    """Return the class of the active backend that defines `fit` and `evaluate`."""
    import importlib

    backend = keras.backend.backend()
    module = importlib.import_module(f"keras.src.backend.{backend}.trainer")
    found = {"tensorflow": "TensorFlowTrainer", "torch": "TorchTrainer", "jax": "JAXTrainer"}
    return getattr(module, found[backend])


def global_seed() -> int | None:
    """Return the seed set with `keras.utils.set_random_seed`; None if it was not called."""
    from keras.src.utils.rng_utils import get_random_seed

    seed = get_random_seed()
    return None if seed is None else int(seed)


def step_owner(model: Any) -> Any:
    """Return the class that defines a model's `train_step`."""
    return next(kind for kind in type(model).__mro__ if "train_step" in kind.__dict__)


def has_plain_step(model: Any) -> bool:
    """Return whether a model trains with Keras's own `train_step`."""
    return step_owner(model) is trainer_type()


def is_built(model: Any) -> bool:
    """Return whether all layers of a model have created their variables."""
    return all(layer.built for layer in model._flatten_layers())


def build(model: Any, batch: Any) -> None:
    """Create the variables of a model, without a step or a random seed."""
    model._symbolic_build(data_batch=batch)


def hides_steps(model: Any) -> bool:
    """Return whether programs cannot store the state before a step of a model."""
    return bool(model.jit_compile or model.run_eagerly or runs_all_eagerly())


def iterators() -> tuple[Any, ...]:
    """Return the classes of iterators from which a train function reads batches."""
    import tensorflow as tf

    return (tf.data.Iterator, tf.distribute.DistributedIterator)


def steps_per_call(model: Any) -> int:
    """Return the number of steps per call to a model's train function."""
    return int(getattr(model, "steps_per_execution", 1) or 1)


def compiled_type() -> Any:
    """Return the model class that defines `compile`."""
    return next(kind for kind in trainer_type().__mro__ if "compile" in kind.__dict__)


def assigned_type() -> Any:
    """Return the variable class that defines `assign`."""
    return next(kind for kind in keras.Variable.__mro__ if "assign" in kind.__dict__)


def restored_type() -> Any:
    """Return the class of variables restored from checkpoints; None if there is none."""
    every = (kind for kind in keras.Variable.__mro__ if kind.__module__.startswith("keras."))
    return next((kind for kind in every if "_restore_from_tensors" in kind.__dict__), None)


def optimizer_types() -> tuple[Any, ...]:
    """Return the classes that define `apply`, outermost first."""
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    return (keras.optimizers.LossScaleOptimizer, BaseOptimizer)


def training_flag(layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | None:
    """Return the `training` flag of a layer that is being called, as Keras determines it.

    An argument of the call has priority, then the flag of the enclosing layer, then the default.
    """
    from keras.src.backend.common import global_state

    place, default = _training_parameter(layer.__class__.call)
    given = kwargs.get("training")
    if given is None and place is not None and place < len(args):
        given = args[place]
    if given is None:
        context = global_state.get_global_attribute("current_call_ctx")
        given = getattr(context, "training", None)
    given = default if given is None else given
    return None if given is None else bool(given)


def has_training_flag(layer: Any) -> bool:
    """Return whether a layer's `call` has a `training` flag, so that it may depend on the mode."""
    return _training_parameter(layer.__class__.call)[0] is not None


@functools.cache
def _training_parameter(call: Callable[..., Any]) -> tuple[int | None, bool | None]:
    """Return the position of `training` among the arguments of a `call`, and its default."""
    found = list(inspect.signature(call).parameters.values())[1:]
    place = next((n for n, one in enumerate(found) if one.name == "training"), None)
    default = None if place is None else found[place].default
    return place, default if isinstance(default, bool) else None


def is_symbolic() -> bool:
    """Return whether layers are called only for output shapes, as when building a model."""
    from keras.src.backend.common import global_state

    return global_state.get_global_attribute("symbolic_scope") is not None


def leaves(layer: Any) -> Iterator[Any]:
    """Return the innermost layers within a layer, or the layer itself."""
    for each in layer._flatten_layers(include_self=True, recursive=True):
        if is_leaf(each):
            yield each


def is_leaf(layer: Any) -> bool:
    """Return whether a layer has no sublayers; a recurrent layer counts as a single layer."""
    if isinstance(layer, keras.layers.RNN):
        return True
    return not getattr(layer, "_layers", None)


def sequences_shape(layer: Any) -> tuple[int | None, ...] | None:
    """Return the shape of the sequences for which a recurrent layer was built.

    None if it is unknown, or if the layer also gets an initial state.
    """
    shapes = getattr(layer, "_build_shapes_dict", None) or {}
    shape = shapes.get("sequences_shape")
    if shape is None or shapes.get("initial_state_shape") is not None or len(shape) != 3:
        return None
    return tuple(shape)


def loss_totals(model: Any) -> tuple[float, float] | None:
    """Return sum and weight of the losses since the metrics were reset; None if unknown."""
    tracker = getattr(model, "_loss_tracker", None)
    if tracker is None or not hasattr(tracker, "total"):
        return None
    return _number(tracker.total), _number(tracker.count)


def _number(variable: Any) -> float:
    """Return the value of a variable; for several replicas, their combined value."""
    value = variable.value
    if hasattr(value, "read_value"):  # a TensorFlow variable, which replicas may share
        value = value.read_value()
    return float(keras.ops.convert_to_numpy(value))


def plain_loss(model: Any, returned: Any) -> float | None:
    """Return the loss from a custom train step; None for the mean of a metric."""
    tracker = getattr(model, "_loss_tracker", None)
    if any(metric.name == "loss" and metric is not tracker for metric in model.metrics):
        return None
    value = keras.ops.convert_to_numpy(returned)
    return float(value) if value.size == 1 else None


def is_finite_here(loss: Any) -> bool:
    """Return whether a loss is finite, or its value on a device is not known yet."""
    if "CPU" not in getattr(loss, "device", ""):
        return True
    return math.isfinite(loss.numpy())


def losses_of(loss: Any) -> Any:
    """Return the function wrapped by a loss; None if there is none."""
    return getattr(loss, "fn", None)


def metric_senses(model: Any) -> dict[str, bool]:
    """Return, for each metric that defines it, whether a greater value is better."""
    found: dict[str, bool] = {}
    for held in getattr(model, "metrics", ()):
        for metric in (held, *getattr(held, "metrics", ())):
            sense = getattr(metric, "_direction", None)
            if sense in ("up", "down"):
                found[str(metric.name)] = sense == "up"
    return found


def has_logits(prediction: Any) -> bool:
    """Return whether a prediction gives Keras crossentropies access to the softmax input."""
    if hasattr(prediction, "_keras_logits"):
        return True
    operation = None if hasattr(prediction, "numpy") else getattr(prediction, "op", None)
    return operation is not None and operation.type in ("Softmax", "Sigmoid")


def compiled_loss_type() -> Any:
    """Return the class that `compile` creates from the given losses."""
    from keras.src.trainers.compile_utils import CompileLoss

    return CompileLoss


def runs_all_eagerly() -> bool:
    """Return whether all functions in this process run eagerly."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return bool(tf.config.functions_run_eagerly())


def eager_array(value: Any) -> Any:
    """Convert a tensor of the active backend to NumPy; None for other values."""
    if not keras.ops.is_tensor(value) or isinstance(value, keras.KerasTensor):
        return None
    return keras.ops.convert_to_numpy(value)


def sliced_arrays(dataset: Any) -> list[Any]:
    """Return the arrays that the sources of a `tf.data` pipeline take rows of.

    Nothing if one of the sources is not `from_tensor_slices`.
    """
    if not callable(getattr(dataset, "_inputs", None)):
        return []
    inputs = dataset._inputs()
    if not inputs and type(dataset).__name__ == "_TensorSliceDataset":
        return [np.asarray(one) for one in dataset._tensors]
    found = [sliced_arrays(one) for one in inputs]
    return [array for part in found for array in part] if all(found) else []
