"""Losses and activations of `tf.nn` that a script calls itself, without Keras."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow.probes.probes import Look, Looks
from mothtrap.adapters.tensorflow.probes.raw_records import RawLoss, WrittenLoss
from mothtrap.adapters.tensorflow.probes.slots import LOSS_ROWS, Slot
from mothtrap.core.adapters import Job
from mothtrap.core.facts.losses import LossCall
from mothtrap.tracing.describe import loss_numbers
from mothtrap.tracing.describe.differences import log_softmax
from mothtrap.tracing.describe.loss_numbers import Array, Called
from mothtrap.tracing.describe.losses import loss_call
from mothtrap.tracing.replacements import Function, Replacements, drop_own_frame
from mothtrap.tracing.source import frames

OPERATIONS: Final = {
    "softmax_cross_entropy_with_logits": "cross_entropy",
    "sparse_softmax_cross_entropy_with_logits": "cross_entropy",
    "sigmoid_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
}
"""Losses of `tf.nn`, described as in `LossCall`."""
ACTIVATIONS: Final = ("softmax", "log_softmax", "sigmoid")
WRITTEN_WITH: Final = "log_softmax"
"""Activation that scripts use in the losses that they write themselves."""
MAX_CHAIN: Final = 6
LIBRARIES: Final = ("tensorflow", "keras")
AUTOGRAPH: Final = "tensorflow.python.autograph"


@dataclass(slots=True)
class Activated:
    """Origin of a tensor: an activation that the script calls; `source` is its input."""

    chain: tuple[str, ...]
    source: int


def install(replacements: Replacements, looks: Looks) -> None:
    """Replace the losses and activations in the public modules of TensorFlow."""

    def replace(owner: Any, name: str, act: Callable[..., None]) -> None:
        def make(original: Function) -> Function:
            def call(*args: Any, **kwargs: Any) -> Any:
                try:
                    result = original(*args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                is_step = bool(looks.tapes)
                is_evaluation = act is _lost and bool(looks.optimized)
                look = looks.current() if is_step or is_evaluation else None
                if look is not None and not look.why and _is_called_by_script():
                    of = act if is_step else _evaluated
                    replacements.contain(of, look, name, result, args, kwargs)
                return result

            return call

        replacements.replace(owner, name, make)

    for name in OPERATIONS:
        if name in vars(tf.nn):
            replace(tf.nn, name, _lost)
    for name in ACTIVATIONS:
        for owner in (tf, tf.nn, tf.math):
            if name in vars(owner):
                replace(owner, name, _activated)


def chain_of(look: Look, tensor: Any) -> tuple[str, ...]:
    """Return the operations between a loss and the last weights before it, nearest first."""
    found: list[str] = []
    place = id(tensor)
    for _ in range(MAX_CHAIN):
        made = look.made.get(place)
        if made is None or not hasattr(made, "chain"):
            break
        found += made.chain
        if "linear" in found:
            break
        place = made.source
    return tuple(name for name in found if name != "view")


def report(look: Look, job: Job, step: int, series: str | None) -> None:
    """Report the losses of a step."""
    for loss in look.raw:
        prediction = loss.prediction.read()
        called = _called(loss, loss.target.read(), prediction)
        if called is None:
            continue
        swapped = _are_swapped(called.target, prediction)
        shown = None
        if called.operation == "cross_entropy" and not swapped:
            shown = loss_numbers.rows_are_probabilities(prediction)
        fact: LossCall = loss_call(
            called,
            prediction,
            [],
            columns=False,
            step=step,
            series=series,
            target_shape=called.target.shape,
            location=loss.location,
            function=f"tf.nn.{loss.name}",
            rows_are_probabilities=shown,
            swapped=swapped,
            alone=len(look.raw) == 1 and not look.losses,
        )
        job.fact(fact)
    _report_written(look, job, step, series)


def _are_swapped(target: Array, prediction: Array) -> bool:
    """Return whether a prediction is one-hot labels, and the target has no probabilities."""
    if target.shape != prediction.shape or prediction.ndim < 2 or prediction.shape[-1] < 2:
        return False
    is_hot = np.isin(prediction, (0, 1)).all() and (prediction.sum(axis=-1) == 1).all()
    sums = target.sum(axis=-1)
    return bool(is_hot and np.isfinite(sums).all() and (np.abs(sums - 1) > 0.01).any())


def _report_written(look: Look, job: Job, step: int, series: str | None) -> None:
    """Report losses that the script writes, if the log-softmax is over rows, or they are whole."""
    others = bool(look.raw or look.losses) or len(look.by_script) > 1 or len(look.targets) != 1
    terms = None if others else look.targets[0].terms
    whole = terms is not None and len(terms.labels) == 1 and None not in terms.labels
    axes = {(loss.of, loss.axis % 2) for loss in look.by_script}
    for loss in look.by_script:
        over_rows = loss.axis % 2 == 0 and (loss.of, 1) not in axes
        if not (over_rows or whole):
            continue
        job.fact(
            log_softmax(
                tuple(loss.shape.read().tolist()),
                loss.axis,
                step=step,
                series=series if whole else None,
                chain=loss.chain,
                function=f"tf.nn.{WRITTEN_WITH}",
                location=loss.location,
                alone=whole,
            )
        )


def _is_called_by_script() -> bool:
    """Return whether no library, such as Keras's losses, makes the running call."""
    frame: FrameType | None = sys._getframe(2)
    name = ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(AUTOGRAPH):  # which calls every function of a converted program
            break
        frame = frame.f_back
    return name.partition(".")[0] not in LIBRARIES


def _activated(look: Look, name: str, result: Any, args: Any, kwargs: Any) -> None:
    given = args[0] if args else next((kwargs[n] for n in ("logits", "x") if n in kwargs), None)
    look.made[id(result)] = Activated((name,), id(given))
    look.held += [result, given]
    if name == WRITTEN_WITH and isinstance(given, tf.Tensor) and given.shape.rank == 2:
        axis = args[1] if len(args) > 1 else kwargs.get("axis")
        look.by_script.append(
            WrittenLoss(
                of=id(given),
                shape=Slot(tf.shape(given), behind=look),
                axis=-1 if axis is None else int(axis),
                chain=chain_of(look, given),
                location=frames.user_location(),
            )
        )


def _evaluated(look: Look, name: str, result: Any, args: Any, kwargs: Any) -> None:
    """Record a loss that a program computes outside of any tape, after the first step."""
    target, prediction = _given(args, kwargs)
    if tf.executing_eagerly() or target is None or not tf.is_tensor(prediction):
        return
    rows = tf.cast(tf.size(result), tf.float32)
    loss = RawLoss(
        name=name,
        target=Slot(tf.convert_to_tensor(target), rows=LOSS_ROWS),
        prediction=Slot(prediction, rows=1),
        chain=(),
        location=frames.user_location(),
    )
    value = Slot(tf.stack([tf.cast(tf.reduce_mean(result), tf.float32), rows]))
    look.evaluated.append((loss, value))


def labels(loss: RawLoss) -> Called | None:
    """Return a loss call with targets only; None for soft targets."""
    target, shape = loss.target.read(), loss.prediction.shape
    if OPERATIONS[loss.name] != "cross_entropy":
        return Called(
            operation=OPERATIONS[loss.name],
            chain=(),
            classes=2,
            target=target,
            prediction=np.zeros(0),
        )
    if target.ndim == len(shape):
        if not (np.isin(target, (0, 1)).all() and (target.sum(axis=-1) == 1).all()):
            return None
        target = target.argmax(axis=-1)
    return Called(
        operation="cross_entropy",
        chain=(),
        classes=shape[-1],
        target=target.reshape(-1),
        prediction=np.zeros(0),
    )


def _given(args: Any, kwargs: Any) -> tuple[Any, Any]:
    target = args[0] if args else kwargs.get("labels")
    return target, args[1] if len(args) > 1 else kwargs.get("logits")


def _lost(look: Look, name: str, _: Any, args: Any, kwargs: Any) -> None:
    target, prediction = _given(args, kwargs)
    if target is None or not tf.is_tensor(prediction):
        return
    look.raw.append(
        RawLoss(
            name=name,
            target=Slot(tf.convert_to_tensor(target), rows=LOSS_ROWS, behind=look),
            prediction=Slot(prediction, rows=LOSS_ROWS, behind=look),
            chain=chain_of(look, prediction),
            location=frames.user_location(),
        )
    )


def _called(loss: RawLoss, target: Array, prediction: Array) -> Called | None:
    """Return a loss in framework-independent terms; None if its labels are no classes."""
    operation, scores = OPERATIONS[loss.name], prediction.astype(np.float64)
    if not prediction.ndim:
        return None
    if operation != "cross_entropy":
        probability = 1 / (1 + np.exp(-np.clip(scores, -60, 60)))
        return Called(
            operation=operation,
            chain=loss.chain,
            classes=2,
            target=target,
            prediction=probability,
        )
    if target.shape == prediction.shape:
        hard = np.isin(target, (0, 1)).all() and (target.sum(axis=-1) == 1).all()
        target = target.argmax(axis=-1) if hard else target
    return Called(
        operation=operation,
        chain=loss.chain,
        classes=prediction.shape[-1],
        target=target,
        prediction=loss_numbers.softmax(scores),
    )
