"""Questions to a network beyond its answers: margins, features, and pictures.

Shape suffixes: R = rows, K = outputs, F = features, H = height, W = width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.subject import Refused, Subject
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import MothtrapError, NotApplicable
from mothtrap.core.wrapped_models import LayerOutput, Network

Floats = npt.NDArray[np.float64]

SMALLEST = 1e-12
"""Probability below which no logarithm is taken."""


def network_of(subject: Subject) -> Network:
    """Return the network behind a model.

    Raises:
        NotApplicable: the model is not a network, or its outputs are labels.
    """
    if subject.options.network is None:
        raise NotApplicable("the model is not a PyTorch or Keras network")
    if subject.reading.form == "labels":
        raise NotApplicable("the network returns labels, which have no gradient")
    return subject.options.network


@contextmanager
def questions(subject: Subject, rows: int) -> Iterator[None]:
    """Charge the budget for rows passed to a network, and convert its errors to `Refused`."""
    subject.budget.spend(rows)
    try:
        with np.errstate(all="ignore"):
            yield
    except MothtrapError:
        raise
    except Exception as err:  # whatever the network raises
        raise Refused(f"the network failed on the rows: {in_one_line(err)}") from err


@dataclass(frozen=True, slots=True)
class Margin:
    """The lead of the predicted class over the second class, or the predicted number.

    Attributes:
        form: Form of the predictions; see `Reading`.
        first_R: the predicted class of each row.
        second_R: the class with the next higher score.
    """

    form: str
    first_R: npt.NDArray[np.int64]
    second_R: npt.NDArray[np.int64]

    @classmethod
    def of(cls, subject: Subject, output_RK: Floats) -> Margin:
        """Return the margin of the predicted classes."""
        if output_RK.shape[1] == 1:
            limit = 0.5 if subject.reading.form == "probabilities" else 0.0
            first_R = (output_RK[:, 0] > limit).astype(np.int64)
            return cls(subject.reading.form, first_R, 1 - first_R)
        order = np.argsort(output_RK, axis=1)
        return cls(subject.reading.form, order[:, -1], order[:, -2])

    def take(self, rows: Any) -> Margin:
        """Return the margin of selected rows."""
        return Margin(self.form, self.first_R[rows], self.second_R[rows])

    def values(self, output_RK: Floats) -> Floats:
        """Return the margin of each row (R,)."""
        score_RK = self._scores(output_RK)
        if self.form == "numbers":
            return score_RK[:, 0]
        rows = np.arange(len(score_RK))
        return np.asarray(score_RK[rows, self.first_R] - score_RK[rows, self.second_R])

    def weights(self, output_RK: Floats) -> Floats:
        """Return the derivative of the margin with respect to each output, (R, K)."""
        found = np.zeros(output_RK.shape)
        if self.form == "numbers":
            found[:, 0] = 1.0
            return found
        if output_RK.shape[1] == 1:
            found[:, 0] = np.where(self.first_R == 1, 1.0, -1.0)
            if self.form == "probabilities":
                p_R = np.clip(output_RK[:, 0], SMALLEST, 1 - SMALLEST)
                found[:, 0] /= np.maximum(p_R * (1 - p_R), SMALLEST)
            return found
        rows = np.arange(len(found))
        found[rows, self.first_R], found[rows, self.second_R] = 1.0, -1.0
        if self.form == "probabilities":
            found /= np.maximum(output_RK, SMALLEST)
        return found

    def _scores(self, output_RK: Floats) -> Floats:
        """Return scores whose difference is the margin: logits, or logarithms of probabilities."""
        if self.form == "probabilities":
            if output_RK.shape[1] == 1:
                output_RK = np.concatenate([1 - output_RK, output_RK], axis=1)
            return np.asarray(np.log(np.maximum(output_RK, SMALLEST)))
        if self.form == "logits" and output_RK.shape[1] == 1:
            return np.concatenate([np.zeros_like(output_RK), output_RK], axis=1)
        return output_RK


def features(layers: Sequence[LayerOutput]) -> Floats:
    """Return the input of the last linear or convolutional layer, averaged over positions, (R, F).

    Raises:
        NotApplicable: the network has one layer.
    """
    weighted = [i for i, layer in enumerate(layers) if layer.kind != "other"]
    before = [layer for layer in layers[: weighted[-1]] if _width(layer)] if weighted else []
    if not before:
        raise NotApplicable("the network has no hidden layer")
    values = before[-1].values
    return np.asarray(values.mean(axis=tuple(range(1, values.ndim - 1))), np.float64)


def _width(layer: LayerOutput) -> int:
    return layer.values.shape[-1] if layer.values.ndim > 1 else 0


def channel_axis(shape: Sequence[int]) -> int | None:
    """Return the color axis of images (R, H, W), (R, C, H, W) or (R, H, W, C).

    Returns:
        The axis; None for images without one.

    Raises:
        NotApplicable: the inputs are not images.
    """
    if len(shape) == 3:
        return None
    if len(shape) != 4:
        raise NotApplicable("the inputs are not images")
    return 1 if shape[1] in (1, 3, 4) and shape[3] not in (1, 3, 4) else 3


def in_plane(values: npt.NDArray[Any]) -> Floats:
    """Return image values summed over the color axis, (R, H, W)."""
    axis = channel_axis(values.shape)
    return np.asarray(values if axis is None else values.sum(axis=axis), np.float64)
