"""Calls of Keras losses while a step is traced or runs eagerly.

Each call becomes a `LossRecord` of the record in progress, with its prediction and its target. When
the step has run, `loss_calls.py` reads them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import internals, losses
from mothtrap.adapters.keras.evaluations import Outside
from mothtrap.adapters.keras.tensors import AskedTensors
from mothtrap.adapters.tensorflow import internals as tensorflow_names
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.probes.loss_records import LossRecord
from mothtrap.adapters.tensorflow.probes.slots import LOSS_ROWS, Slot
from mothtrap.adapters.tensorflow.raw_losses import chain_of
from mothtrap.core.adapters import Job
from mothtrap.tracing.replacements import Replacements, drop_own_frame
from mothtrap.tracing.source import frames


class LossProbes:
    """Adds losses to the record of the program or step.

    Args:
        job: job of the training.
        asked: receives labels that collections request.
        outside: receives losses that no tape records.
    """

    def __init__(self, job: Job, asked: AskedTensors, outside: Outside) -> None:
        self._job, self._asked, self._outside = job, asked, outside
        self._here = _Thread()

    def install(self, replacements: Replacements) -> None:
        """Replace the methods of losses."""
        replacements.around(keras.losses.Loss, "__call__", None, self._lost)
        replacements.replace(internals.compiled_loss_type(), "call", self._around_compiled_loss)

    def _around_compiled_loss(self, original: Callable[..., Any]) -> Callable[..., Any]:
        here = self._here

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            here.in_compiled += 1
            try:
                return original(self, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                here.in_compiled -= 1

        return call

    def _lost(
        self, loss: Any, result: Any, args: Sequence[Any], kwargs: dict[str, Any], __: Any
    ) -> None:
        is_compiled = isinstance(loss, internals.compiled_loss_type())
        if is_compiled or (self._here.in_compiled and not LOOKS.tapes):
            return
        if not LOOKS.tapes:
            self._job.contain_part("evaluations", self._outside.lost, loss, result, args, kwargs)
            return
        target = args[0] if args else kwargs.get("y_true")
        prediction: Any = args[1] if len(args) > 1 else kwargs.get("y_pred")
        look = LOOKS.current()
        if isinstance(prediction, np.ndarray):  # labels, which a custom loop may pass second
            prediction = tf.convert_to_tensor(prediction)
        if look is None or not tf.is_tensor(prediction):
            return
        target = tf.convert_to_tensor(target)
        if not look.why:
            self._job.contain_part("collections", self._asked.lost, look, loss, target)
        chain = chain_of(look, prediction)
        weights = args[2:] or [kwargs.get("sample_weight")]
        look.losses.append(
            LossRecord(
                loss=loss,
                target=None if look.why else Slot(target, rows=LOSS_ROWS, behind=look),
                prediction=None if look.why else Slot(prediction, rows=LOSS_ROWS, behind=look),
                chain=chain,
                location=frames.user_location(),
                classes=int(prediction.shape[-1] or 0) if prediction.shape.rank else None,
                taken_back=losses.taken_back(loss, chain, prediction),
                swapped=_are_swapped(target, prediction),
                of=id(prediction),
                counted=_counted(look, target, prediction, weights),
                computed=_scalar(look, result),
            )
        )


class _Thread(threading.local):
    in_compiled: int = 0


def _scalar(look: Any, result: Any) -> Slot | None:
    is_scalar = not look.why and tf.is_tensor(result) and result.shape.rank == 0
    return Slot(result, behind=look) if is_scalar else None


def _counted(look: Any, target: Any, prediction: Any, weights: Sequence[Any]) -> Slot | None:
    """Return which targets of sequences count in a loss: by a mask, or weights of positions."""
    shape = target.shape
    for given in (getattr(prediction, "_keras_mask", None), *weights):
        if given is not None and shape.rank == 2 and not look.why:
            found = tf.convert_to_tensor(given)
            if found.shape.is_compatible_with(shape) and found.shape.rank == 2:
                return Slot(tf.cast(found, tf.bool), rows=LOSS_ROWS, behind=look)
    return None


def _are_swapped(target: Any, prediction: Any) -> bool:
    return tensorflow_names.is_recorded(target) and not tensorflow_names.is_recorded(prediction)
