"""Losses of Gluon as facts: operation, logits, targets, predictions.

Shape suffix: R = rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from mxnet import gluon
from mxnet.ndarray import NDArray

from mothtrap.core.facts.losses import LossCall
from mothtrap.tracing.describe import loss_numbers
from mothtrap.tracing.describe.loss_numbers import Called
from mothtrap.tracing.describe.losses import loss_call

Array = npt.NDArray[Any]
ELEMENTWISE: Final = ("L2Loss", "L1Loss", "HuberLoss", "PoissonNLLLoss")


def fact(
    loss: Any,
    args: tuple[Any, ...],
    place: str | None,
    chains: dict[int, tuple[str, ...]],
    inputs: list[Array],
    *,
    step: int,
    alone: bool,
) -> LossCall | None:
    """Return the fact for a loss call; None if its kind is unknown.

    Args:
        loss: the block.
        args: prediction and target.
        place: line of the call.
        chains: operations of layers by the identity of their outputs.
        inputs: inputs of the model.
        step: step in progress.
        alone: the step has no other loss.
    """
    one = called(loss, args, chains.get(id(args[0]), ()) if args else ())
    if one is None:
        return None
    prediction, target = (each.asnumpy() for each in args)
    return loss_call(
        one,
        prediction,
        inputs,
        step=step,
        series=series_of(place),
        target_shape=target.shape,
        location=place,
        rows_are_probabilities=loss_numbers.rows_are_probabilities(prediction),
        reduction="mean",  # mean per example; a step divides by the size of the batch
        alone=alone,
        function=type(loss).__name__,
    )


def called(loss: Any, args: tuple[Any, ...], chain: tuple[str, ...] = ()) -> Called | None:
    """Return a loss call in framework-independent form; None if its kind is unknown.

    Args:
        loss: the block.
        args: prediction and target.
        chain: operations before it.
    """
    if len(args) < 2 or not all(isinstance(each, NDArray) for each in args):
        return None
    prediction, target = (each.asnumpy() for each in args)
    return _loss_call(loss, chain, prediction, target)


def series_of(place: str | None) -> str:
    """Return the label of a line's losses."""
    return Path(place).name if place else "loss"


def _loss_call(
    loss: Any, chain: tuple[str, ...], prediction: Array, target: Array
) -> Called | None:
    """Return a loss in framework-independent terms; None if it is of a different kind."""
    kind, values, classes = type(loss).__name__, prediction.astype(np.float64), None
    # Private to MXNet (1.9): a loss block has no public access to its factor.
    weight = 1.0 if loss._weight is None else float(loss._weight)
    if isinstance(loss, gluon.loss.SoftmaxCrossEntropyLoss):
        operation = "nll" if loss._from_logits else "cross_entropy"
        values = np.moveaxis(values, loss._axis, -1)
        classes = values.shape[-1]
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.exp(values - values.max(axis=-1, keepdims=True))
            values /= values.sum(axis=-1, keepdims=True)
        if loss._sparse_label and target.size * classes == values.size:
            target = target.reshape(values.shape[:-1])
            whole = np.isfinite(target).all() and (target == np.round(target)).all()
            target = target.astype(np.int64) if whole else target
    elif isinstance(loss, gluon.loss.SigmoidBinaryCrossEntropyLoss):
        classes, of_logits = 2, not loss._from_sigmoid
        operation = "binary_cross_entropy" + ("_with_logits" if of_logits else "")
        values = 1 / (1 + np.exp(-np.clip(values, -60, 60))) if of_logits else values
        target = target.reshape(values.shape) if target.size == values.size else target
    elif kind in ELEMENTWISE:
        operation = "elementwise"
    else:
        return None
    return Called(
        operation=operation,
        chain=chain,
        classes=classes,
        target=target,
        prediction=values,
        squared=weight / 2 if isinstance(loss, gluon.loss.L2Loss) else None,
        is_weighted=weight != 1 and not isinstance(loss, gluon.loss.L2Loss),
    )
