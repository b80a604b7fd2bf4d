"""Private names of Keras that the adapter rests on; tried with 3.15."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import keras

TRIED: Final = ("3.15",)
"""Versions with which everything here was tried."""


FLOOR: Final = (3, 3)
"""The oldest version that is observed."""


def is_tried() -> bool:
    """Return whether the private names were tried with the version that is installed."""
    return keras.version().rpartition(".")[0] in TRIED


def is_new_enough() -> bool:
    """Return whether the version that is installed is observed at all."""
    return tuple(int(part) for part in keras.version().split(".")[:2]) >= FLOOR


def trainer_type() -> Any:
    """Return the class of the active backend whose methods `fit` and `evaluate` are."""
    import importlib

    backend = keras.backend.backend()
    module = importlib.import_module(f"keras.src.backend.{backend}.trainer")
    found = {"tensorflow": "TensorFlowTrainer", "torch": "TorchTrainer", "jax": "JAXTrainer"}
    return getattr(module, found[backend])


def global_seed() -> int | None:
    """Return the seed of `keras.utils.set_random_seed`; None where it was not called."""
    from keras.src.utils.rng_utils import get_random_seed

    seed = get_random_seed()
    return None if seed is None else int(seed)


def step_owner(model: Any) -> Any:
    """Return the class in which the `train_step` of a model is defined."""
    return next(kind for kind in type(model).__mro__ if "train_step" in kind.__dict__)


def has_plain_step(model: Any) -> bool:
    """Return whether a model trains with the `train_step` of Keras itself."""
    return step_owner(model) is trainer_type()


def is_built(model: Any) -> bool:
    """Return whether all layers of a model have made their variables."""
    return all(layer.built for layer in model._flatten_layers())


def build(model: Any, batch: Any) -> None:
    """Make the variables of a model, as Keras does for replicas: no step is made, no seed drawn."""
    model._symbolic_build(data_batch=batch)


def hides_steps(model: Any) -> bool:
    """Return whether no program can keep what a step of a model began with."""
    return bool(model.jit_compile or model.run_eagerly or runs_all_eagerly())


def iterators() -> tuple[Any, ...]:
    """Return the classes of the iterators from which a train function takes batches itself."""
    import tensorflow as tf

    return (tf.data.Iterator, tf.distribute.DistributedIterator)


def steps_per_call(model: Any) -> int:
    """Return how many steps a call of the train function of a model makes."""
    return int(getattr(model, "steps_per_execution", 1) or 1)


def compiled_type() -> Any:
    """Return the class of models in which `compile` is defined."""
    return next(kind for kind in trainer_type().__mro__ if "compile" in kind.__dict__)


def assigned_type() -> Any:
    """Return the class of variables in which `assign` is defined."""
    return next(kind for kind in keras.Variable.__mro__ if "assign" in kind.__dict__)


def restored_type() -> Any:
    """Return the class of variables that take values of checkpoints; None where there is none."""
    every = (kind for kind in keras.Variable.__mro__ if kind.__module__.startswith("keras."))
    return next((kind for kind in every if "_restore_from_tensors" in kind.__dict__), None)


def optimizer_types() -> tuple[Any, ...]:
    """Return the classes in which `apply` is defined, the outermost first."""
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    return (keras.optimizers.LossScaleOptimizer, BaseOptimizer)


def training_flag(kwargs: dict[str, Any]) -> bool | None:
    """Return the `training` flag with which a layer that is being called runs."""
    from keras.src.backend.common import global_state

    given = kwargs.get("training")
    if given is None:
        context = global_state.get_global_attribute("current_call_ctx")
        given = getattr(context, "training", None)
    return None if given is None else bool(given)


def is_symbolic() -> bool:
    """Return whether layers are called for the shapes of their outputs, as to build a model."""
    from keras.src.backend.common import global_state

    return global_state.get_global_attribute("symbolic_scope") is not None


def leaves(layer: Any) -> Iterator[Any]:
    """Return the layers within a layer that consist of no others; itself if it is one."""
    for each in layer._flatten_layers(include_self=True, recursive=True):
        if is_leaf(each):
            yield each


def is_leaf(layer: Any) -> bool:
    """Return whether a layer consists of no others; a recurrent one counts as a whole."""
    if isinstance(layer, keras.layers.RNN):
        return True
    return not getattr(layer, "_layers", None)


def loss_totals(model: Any) -> tuple[float, float] | None:
    """Return sum and weight of the losses since the metrics were reset; None where unknown."""
    tracker = getattr(model, "_loss_tracker", None)
    if tracker is None or not hasattr(tracker, "total"):
        return None
    return _number(tracker.total), _number(tracker.count)


def _number(variable: Any) -> float:
    """Return the value of a variable; of one of several replicas what they come to together."""
    value = variable.value
    if hasattr(value, "read_value"):  # a variable of TensorFlow's, which replicas may share
        value = value.read_value()
    return float(keras.ops.convert_to_numpy(value))


def plain_loss(model: Any, returned: Any) -> float | None:
    """Return the loss that a train step of the user's returned; None of the mean of a metric."""
    tracker = getattr(model, "_loss_tracker", None)
    if any(metric.name == "loss" and metric is not tracker for metric in model.metrics):
        return None
    value = keras.ops.convert_to_numpy(returned)
    return float(value) if value.size == 1 else None


def is_finite_here(loss: Any) -> bool:
    """Return whether a loss is finite, or lies on a device: what it is shows later then."""
    if "CPU" not in getattr(loss, "device", ""):
        return True
    return math.isfinite(loss.numpy())


def losses_of(loss: Any) -> Any:
    """Return the function that a loss wraps; None where it wraps none."""
    return getattr(loss, "fn", None)


def metric_senses(model: Any) -> dict[str, bool]:
    """Return, of the metrics of a model that know it, whether they grow as it becomes better."""
    found: dict[str, bool] = {}
    for held in getattr(model, "metrics", ()):
        for metric in (held, *getattr(held, "metrics", ())):
            sense = getattr(metric, "_direction", None)
            if sense in ("up", "down"):
                found[str(metric.name)] = sense == "up"
    return found


def has_logits(prediction: Any) -> bool:
    """Return whether a prediction shows Keras' crossentropies what the softmax was given."""
    if hasattr(prediction, "_keras_logits"):
        return True
    operation = None if hasattr(prediction, "numpy") else getattr(prediction, "op", None)
    return operation is not None and operation.type in ("Softmax", "Sigmoid")


def compiled_loss_type() -> Any:
    """Return the class of what `compile` makes of the losses that it was given."""
    from keras.src.trainers.compile_utils import CompileLoss

    return CompileLoss


def runs_all_eagerly() -> bool:
    """Return whether the process was told to run all functions eagerly."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return bool(tf.config.functions_run_eagerly())


def eager_array(value: Any) -> Any:
    """Return a tensor of the active backend as an array of numpy; None of anything else."""
    if not keras.ops.is_tensor(value) or isinstance(value, keras.KerasTensor):
        return None
    return keras.ops.convert_to_numpy(value)
