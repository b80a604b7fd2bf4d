"""Confusion matrix and curves of completely captured labels and outputs."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import StepUnavailableError
from mothtrap.core.predictions import Array, predictions
from mothtrap.core.record_items import Predictions
from mothtrap.core.steps import StepKey
from mothtrap.reader.files.commits import ModeName
from mothtrap.reader.tensors.captured_tensors import Tensor

MAX_ROWS = 1_000_000
"""Maximum number of inspected examples; the latest examples are used; chosen by hand."""


def predictions_of(
    labels: Tensor, scores: Tensor, mode: ModeName, worker: int | None
) -> Predictions:
    """Return the confusion matrix and curves over all steps at which both tensors were captured.

    Raises:
        StepUnavailableError: the tensors were never captured at the same step.
        ValueError: the values do not match.
    """
    targets = _by_moment(labels, mode, worker)
    outputs = _by_moment(scores, mode, worker)
    common = [key for key in targets if key in outputs]
    if not common:
        raise StepUnavailableError(
            f"{labels.identity} and {scores.identity} were never captured together in mode {mode} "
            f"(at {len(targets)} and {len(outputs)} moments); capture both with a collection"
        )
    found_targets, found_outputs, rows = [], [], 0
    for key in reversed(common):
        own, theirs = targets[key], outputs[key]
        if rows >= MAX_ROWS:
            break
        found_targets.append(own.reshape(-1))
        found_outputs.append(theirs.reshape(len(own.reshape(-1)), -1))
        rows += own.size
    scored = np.concatenate(found_outputs[::-1]).astype(np.float64)
    return predictions(np.concatenate(found_targets[::-1]), scored)


def _by_moment(tensor: Tensor, mode: ModeName, worker: int | None) -> dict[StepKey, Array]:
    found: dict[StepKey, list[Array]] = {}
    for key, values in tensor.values(mode, worker):
        found.setdefault(key, []).append(values)
    return {key: np.concatenate(parts) for key, parts in found.items() if np.ndim(parts[0])}
