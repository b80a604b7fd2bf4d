"""Confusion matrix of captured outputs and labels of one step."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import MothtrapError, StepUnavailableError
from mothtrap.core.steps import Mode
from mothtrap.reader.tensors.captured_tensors import Tensor
from mothtrap.web.opened import OpenRun

MOST_CLASSES = 256
KINDS = ("output", "activation")
Array = npt.NDArray[Any]


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of samples by class: a row for each label, a column for each prediction.

    `right` of `count` samples were predicted as labeled.
    """

    step: int
    labels: str
    outputs: str
    classes: int
    cells: list[list[int]]
    right: int
    count: int


def confusion(
    opened: OpenRun, tensor: Tensor, step: int, mode: Mode | None, worker: int | None
) -> Confusion:
    """Return the confusion matrix of outputs at a step.

    Raises:
        StepUnavailableError: no matching labels were captured at that step.
    """
    found = partner(opened, tensor, step, mode, worker)
    if found is None:
        raise StepUnavailableError(
            f"no labels that fit {tensor.identity} were captured at step {step}; "
            "capture the values of both: tensors labels:* and outputs:*"
        )
    name, label_N, score_NK = found
    classes = score_NK.shape[1]
    predicted_N = np.nan_to_num(score_NK.astype(np.float64), nan=-np.inf).argmax(axis=1)
    counts = np.bincount(label_N * classes + predicted_N, minlength=classes * classes)
    return Confusion(
        step=step,
        labels=name,
        outputs=tensor.identity,
        classes=classes,
        cells=counts.reshape(classes, classes).tolist(),
        right=int((label_N == predicted_N).sum()),
        count=len(label_N),
    )


def partner(
    opened: OpenRun, tensor: Tensor, step: int, mode: Mode | None, worker: int | None
) -> tuple[str, Array, Array] | None:
    """Return matching labels (name and values) and outputs; None if no labels match."""
    if tensor.kind not in KINDS:
        return None
    for labels in opened.run.tensors(kind="label"):
        try:
            score_NK = tensor.at(step, mode, worker, copy=-1)
            label_N = labels.at(step, mode, worker, copy=-1)
        except MothtrapError:
            continue
        if score_NK.ndim != 2 or not 2 <= score_NK.shape[1] <= MOST_CLASSES:
            return None
        label_N = label_N.reshape(-1)
        fits = label_N.dtype.kind in "iu" and len(label_N) == len(score_NK)
        if fits and len(label_N) and label_N.min() >= 0 and label_N.max() < score_NK.shape[1]:
            return labels.identity, label_N.astype(np.int64), score_NK
    return None
