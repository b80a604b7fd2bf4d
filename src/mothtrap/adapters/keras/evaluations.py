"""Models and losses that are called outside of any tape: evaluations."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import internals
from mothtrap.adapters.keras.steps import Steps
from mothtrap.adapters.tensorflow.hooks import LOOKS, SHARED
from mothtrap.adapters.tensorflow.probes.loss_records import LossRecord
from mothtrap.adapters.tensorflow.probes.probes import ModelCall
from mothtrap.adapters.tensorflow.probes.slots import LOSS_ROWS, MAX_ROWS, Slot
from mothtrap.core.adapters import Job
from mothtrap.tracing.replacements import drop_own_frame
from mothtrap.tracing.source import frames

MAX_LABELS: Final = 4096
"""Maximum number of labels per row; with more, the labels are pixels."""


class Outside:
    """Observes evaluations, eager and in programs.

    A program is changed only when it computes a loss, or assigns to a variable as a metric does: a
    program that only predicts may be exported, without any of mothtrap's operations.

    Args:
        job: job of the training.
        steps: receives the observations.
    """

    def __init__(self, job: Job, steps: Steps) -> None:
        self._job, self._steps = job, steps
        self._here = _Thread()

    def call(
        self,
        layer: Any,
        original: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Process a layer call; a call to a trained model is an evaluation."""
        here, contain = self._here, self._job.contain
        is_model = not here.depth and self._steps.has_optimizers and isinstance(layer, keras.Model)
        training = contain(internals.training_flag, layer, args, kwargs) if is_model else None
        asked = self._steps.evaluated
        is_root = not here.depth and isinstance(layer, keras.Model)
        is_asked = is_root and bool(contain(asked.model_begins, layer))
        here.depth += 1
        try:
            result = original(layer, *args, **kwargs)
        except BaseException as err:
            asked.failed()
            drop_own_frame(err)
            raise
        finally:
            here.depth -= 1
        if asked.here.model is not None:
            given = (*args, *(value for name, value in kwargs.items() if name != "training"))
            given = given[0] if len(given) == 1 else given
            part = asked.layer_called if not is_asked else asked.model_called
            whole = (given, result) if is_asked else (layer, given, result)
            self._job.contain_part("tensors of evaluations", part, *whole)
        if is_root:
            contain(self._steps.networks.called, layer)
        if is_model:
            given = args, kwargs
            self._job.contain_part("evaluations", self._called, layer, given, result, training)
        return result

    def _called(self, model: Any, given: Any, result: Any, training: Any) -> None:
        values = tf.nest.flatten(given)
        if any(isinstance(value, keras.KerasTensor) for value in values):
            return
        models = self._steps.models
        if tf.executing_eagerly():
            self._here.clear()
            if models.wants(model):
                models.evaluated(_model_call(model, values, result, training), self._steps.given)
        elif SHARED.is_running():
            graph = tf.compat.v1.get_default_graph()
            if self._here.waiting and self._here.waiting[0][0] is not graph:
                self._here.clear()
            # Until the program computes a loss, it may be exported, so no operation is added.
            bare = _model_call(model, (), result, training)
            self._here.waiting.append((graph, model, values, result, training))
            look = LOOKS.current()
            if look is not None and not look.why:
                look.models.append(bare)
                self._here.bare.append(bare)

    def assigned(self) -> None:
        """Handle an assignment to a variable: the pending data belong to an evaluation."""
        waiting, graph = self._here.waiting, tf.compat.v1.get_default_graph()
        if not waiting or waiting[0][0] is not graph:
            return
        look = LOOKS.current()
        if look is not None and not look.why:
            bare = self._here.bare
            look.models[:] = [one for one in look.models if not any(one is each for each in bare)]
            look.models += [_model_call(*each[1:]) for each in waiting]
        self._here.clear()

    def lost(self, loss: Any, result: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Record a loss."""
        is_eager = tf.executing_eagerly()
        if not self._steps.has_optimizers or not (is_eager or SHARED.is_running()):
            return
        self.assigned()
        target = args[0] if args else kwargs.get("y_true")
        prediction: Any = args[1] if len(args) > 1 else kwargs.get("y_pred")
        place, look = frames.user_location(), LOOKS.current()
        if look is None or look.why or not _is_dense(prediction) or not prediction.shape.rank:
            return
        if is_eager and not self._steps.evaluated_losses.open.wants(place):
            return
        weights = args[2] if len(args) > 2 else kwargs.get("sample_weight")
        masked = getattr(prediction, "_keras_mask", None) is not None
        call = LossRecord(
            loss=loss,
            target=None if masked or weights is not None else _labels(target),
            prediction=None,
            chain=(),
            location=place,
            classes=int(prediction.shape[-1] or 0),
        )
        value = Slot(_mean_of_rows(loss, result, prediction))
        if is_eager:
            self._steps.evaluated_losses.evaluated(call, value)
            self._steps.models.lost(prediction)
        else:
            look.evaluated.append((call, value))


class _Thread(threading.local):
    """Layers that are being called, and model calls whose program has not computed a loss."""

    depth: int = 0

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, ...]] = []
        self.bare: list[ModelCall] = []

    def clear(self) -> None:
        """Discard the calls of a program."""
        self.waiting.clear()
        self.bare.clear()


def _model_call(model: Any, values: Sequence[Any], result: Any, training: Any) -> ModelCall:
    arrays = [value for value in values if tf.is_tensor(value) or isinstance(value, np.ndarray)]
    given = arrays[0] if len(arrays) == 1 else None
    gave = result if _is_dense(result) else None
    return ModelCall(
        model=model,
        training=training,
        given=input_slot(given),
        shape=shape_of(gave),
        location=frames.user_location(),
        gave=gave if tf.executing_eagerly() else None,
    )


def input_slot(given: Any, **more: Any) -> Slot | None:
    """Return a slot for the first rows of a numeric model input; None for other inputs."""
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiu" and given.ndim:
        given = tf.convert_to_tensor(given[:MAX_ROWS])
    if not _is_dense(given) or not given.shape.rank:
        return None
    if not (given.dtype.is_floating or given.dtype.is_integer):
        return None
    return Slot(given, rows=MAX_ROWS, **more)


def shape_of(tensor: Any) -> tuple[int, ...] | None:
    """Return the shape of a tensor, 0 for unknown sizes; None for other values."""
    if not _is_dense(tensor) or tensor.shape.rank is None:
        return None
    return tuple(int(size or 0) for size in tensor.shape)


def _labels(target: Any) -> Slot | None:
    if isinstance(target, np.ndarray):
        target = tf.convert_to_tensor(target)
    shape = shape_of(target)
    if not shape or 0 in shape[1:] or math.prod(shape[1:]) > MAX_LABELS:
        return None
    return Slot(target, rows=LOSS_ROWS)


def _is_dense(value: Any) -> bool:
    return isinstance(value, tf.Tensor)


def _mean_of_rows(loss: Any, result: Any, prediction: Any) -> Any:
    """Return the mean loss per row and the number of rows, shape (2,)."""
    rows = tf.cast(tf.shape(prediction)[0], tf.float32)
    mean = tf.cast(tf.reduce_mean(result), tf.float32)
    return tf.stack([mean / rows if loss.reduction == "sum" else mean, rows])
