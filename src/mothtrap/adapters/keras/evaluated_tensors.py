"""Tensors of models called outside of any tape: evaluations and predictions."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from mothtrap.adapters.keras import internals, layers
from mothtrap.adapters.keras.tensors import AskedTensors, hold
from mothtrap.adapters.keras.weights import Weights
from mothtrap.adapters.tensorflow.hooks import LOOKS, SHARED
from mothtrap.adapters.tensorflow.probes.probes import Asked, Look
from mothtrap.core.adapters import Job
from mothtrap.core.steps import Mode

OF_FORWARDS: Final = ("activation", "input", "output")
STATE: Final = ("weight", "bias")
MODES: Final = (Mode.EVAL, Mode.PREDICT)


class _Thread(threading.local):
    """`mode`: mode of forwards outside of any tape; `model`: the model that is captured now."""

    mode = Mode.EVAL
    model: Any = None


class EvaluatedTensors:
    """Stores tensors of an evaluation until they can be captured.

    Args:
        job: receives the arrays.
        weights: weights of the models that are trained.
        asked: determines the requested tensors, and passes them on.

    Attributes:
        here: state of the calling thread.
    """

    def __init__(self, job: Job, weights: Weights, asked: AskedTensors) -> None:
        self._job, self._weights, self._asked = job, weights, asked
        self.here = _Thread()

    def began(self) -> bool:
        """Determine the captures of the next forward pass; return whether there are any."""
        found = False
        for mode in MODES:
            if self._job.begins_evaluation(mode):
                found = found or any(self._job.wants(kind, mode) for kind in OF_FORWARDS)
        return found

    def model_begins(self, model: Any) -> bool:
        """Start storing the layers of a model that is called outside a tape."""
        mode, is_eager = self.here.mode, tf.executing_eagerly()
        if is_eager and not self._job.begins_evaluation(mode):
            return False
        if not is_eager and not SHARED.is_running():
            return False  # it is traced for export
        if not is_eager and not any(self._job.asks(kind, mode) for kind in (*OF_FORWARDS, *STATE)):
            return False
        self.here.model = model
        return True

    def layer_called(self, layer: Any, given: Any, result: Any) -> None:
        """Store the inputs and outputs of a layer of such a model."""
        look = self._look_of_evaluation()
        if look is None or not internals.is_leaf(layer):
            return
        for kind, values in (("activation", result), ("input", given)):
            if self._asked.asks(kind, self.here.mode):
                hold(look, kind, layers.name_of(layer), values, of=layer)

    def model_called(self, given: Any, result: Any) -> None:
        """Store the inputs and outputs of the model itself; capture all data of an eager model."""
        look, model, mode = self._look_of_evaluation(), self.here.model, self.here.mode
        self.here.model = None
        is_symbolic = any(isinstance(one, keras.KerasTensor) for one in tf.nest.flatten(given))
        if look is None or is_symbolic:  # it becomes a part of another model
            return
        for kind, values in (("input", given), ("output", result)):
            if self._asked.asks(kind, mode):
                hold(look, kind, layers.name_of(model), values)
        look.evaluates = mode, model
        if tf.executing_eagerly():
            held, look.asked, look.evaluates = look.asked, [], None
            self._take_evaluation(held, mode, model)
        else:
            look.flush()

    def failed(self) -> None:
        """Discard a forward pass that raised an exception."""
        self.here.model = None

    def ran(self, looks: Iterable[Look]) -> None:
        """Collect the tensors stored by programs that evaluated a model."""
        for look in looks:
            if look.evaluates is not None:
                mode, model = look.evaluates
                if self._job.begins_evaluation(mode):
                    self._take_evaluation(look.asked, mode, model)

    def _take_evaluation(self, held: Sequence[Asked], mode: Mode, model: Any) -> None:
        if not any(self._weights.knows(variable) for variable in model.trainable_variables):
            return  # no optimizer trains it
        with self._job.forward(mode):
            self._weights.evaluated(mode)
            self._asked.take(held, mode)

    def _look_of_evaluation(self) -> Look | None:
        look = LOOKS.current() if self.here.model is not None else None
        return None if look is None or look.why else look
