"""Share of each input in an answer: gradients, integrated gradients, and class activation maps.

One definition serves PyTorch and Keras, on any backend; captum knows only PyTorch. The tests
compare both.

Shape suffixes: R = rows, H = height, W = width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.inside import Floats, Margin, network_of, questions
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.wrapped_models import LayerOutput, Network

Method = Literal["saliency", "integrated_gradients", "grad_cam"]
METHODS: tuple[Method, ...] = ("saliency", "integrated_gradients", "grad_cam")

STEPS, MOST_STEPS = 32, 256
COMPLETENESS = 0.05
"""Largest median gap between the sum of the attributions and the change of the margin, as a share
of the change; with a larger gap, more steps are taken. Sundararajan et al. (2017) name 5 %."""
SAME_MAPS = 0.7
"""Rank correlation with the maps of shuffled weights from which on a map is not returned; chosen
by hand: Adebayo et al. (2018) compare ranks, and give no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Share of each input value in the margin of the predicted class.

    Attributes:
        method: Attribution method.
        values: shape of the rows; for "grad_cam" (R, H, W).
        gap: gap for "integrated_gradients" the median gap of the sums, as a share; else 0.
        randomized: randomized for "grad_cam" the rank correlation with the maps of shuffled
            weights; else 0.
        layer: layer for "grad_cam" the layer whose activations are shown.
    """

    method: Method
    values: npt.NDArray[Any]
    gap: float = 0.0
    randomized: float = 0.0
    layer: str = ""


def attribute(subject: Subject, rows: npt.NDArray[np.int64], method: Method) -> Attribution:
    """Return the attribution of some of the subject's rows, by their index.

    Raises:
        NotApplicable: the model is not a network, has no convolution ("grad_cam"), or its maps do
            not depend on its weights.
        BudgetSpent: no predictions are left.
    """
    network, table = network_of(subject), subject.table.take(rows)
    given = _floats(table.data)
    with questions(subject, len(table)):
        margin = Margin.of(subject, network.outputs(given))
    if method == "grad_cam":
        return _class_maps(subject, network, given, margin)
    if method == "saliency":
        with questions(subject, 2 * len(table)):
            weights = margin.weights(network.outputs(given))
            found = np.abs(network.gradient(given, weights))
        return Attribution(method=method, values=found)
    baseline = _floats(subject.table.data).mean(axis=0, keepdims=True)
    return _integrated(subject, network, given, baseline, margin)


def _floats(data: Any) -> npt.NDArray[Any]:
    values = data.to_numpy() if hasattr(data, "to_numpy") else np.asarray(data)
    if values.dtype.kind not in "fiu" or isinstance(data, dict):
        raise NotApplicable("the inputs are not an array of numbers")
    return np.asarray(values, np.float32)


def _integrated(
    subject: Subject,
    network: Network,
    given: npt.NDArray[Any],
    baseline: npt.NDArray[Any],
    margin: Margin,
) -> Attribution:
    """Sum gradients along the way from the mean row to each row (Sundararajan et al., 2017)."""
    change = given - baseline
    with questions(subject, 2 * len(given)):
        ends = [np.broadcast_to(baseline, given.shape).copy(), given]
        low_R, high_R = (margin.values(network.outputs(each)) for each in ends)
    steps = STEPS
    while True:
        total = np.zeros(given.shape, np.float64)
        with questions(subject, 2 * steps * len(given)):
            for step in range(steps):
                at = (baseline + (step + 0.5) / steps * change).astype(given.dtype)
                total += network.gradient(at, margin.weights(network.outputs(at)))
        found = total / steps * change
        sum_R = found.reshape(len(found), -1).sum(axis=1)
        span_R = np.abs(high_R - low_R)
        gap = float(np.median(np.abs(sum_R - (high_R - low_R)) / np.maximum(span_R, 1e-6)))
        if gap <= COMPLETENESS or steps >= MOST_STEPS:
            return Attribution(method="integrated_gradients", values=found, gap=gap)
        steps *= 2


def _class_maps(
    subject: Subject, network: Network, given: npt.NDArray[Any], margin: Margin
) -> Attribution:
    """Return maps of the last convolution (Grad-CAM, Selvaraju et al., 2017)."""
    with questions(subject, len(given)):
        layers = network.layers(given)
    name, weighted = map_layer(layers)
    with questions(subject, 6 * len(given)):
        maps = _maps(network, given, margin, name)
        with network.shuffled(weighted, subject.rng("shuffled weights")):
            others = _maps(network, given, margin, name)
    same = _rank_correlation(maps, others)
    if same > SAME_MAPS:
        raise NotApplicable(
            f"the class activation maps hardly change when the weights are shuffled (rank "
            f"correlation {same:.2f}): they reflect the images, not the model"
        )
    return Attribution(method="grad_cam", values=maps, randomized=same, layer=name)


def map_layer(layers: Sequence[LayerOutput]) -> tuple[str, list[str]]:
    """Return the layer whose activations are spatial maps, and the weighted layers from there on.

    It is the last convolution, or the normalization or activation that follows it.

    Raises:
        NotApplicable: the network has no convolution of images.
    """
    found = [
        i
        for i, each in enumerate(layers)
        if each.kind == "convolution"
        and each.values.ndim == 4
        and each.values.shape[1] * each.values.shape[2] > 1
    ]
    if not found:
        raise NotApplicable("the network has no convolution of images")
    at = found[-1]
    shape = layers[at].values.shape
    while at + 1 < len(layers) and layers[at + 1].values.shape == shape:
        at += 1
    weighted = [each.name for each in layers[found[-1] :] if each.kind != "other"]
    return layers[at].name, weighted


def _maps(network: Network, given: npt.NDArray[Any], margin: Margin, name: str) -> Floats:
    activation = next(each.values for each in network.layers(given) if each.name == name)
    gradient = network.gradient(given, margin.weights(network.outputs(given)), name)
    weight = gradient.mean(axis=(1, 2), keepdims=True)
    return np.asarray(np.maximum((activation * weight).sum(axis=-1), 0.0), np.float64)


def _rank_correlation(first: Floats, second: Floats) -> float:
    """Return the mean rank correlation of two maps of the same row; 0 if no map varies."""
    from scipy.stats import rankdata

    found = []
    for one, other in zip(first, second, strict=True):
        if np.ptp(one) > 0 and np.ptp(other) > 0:
            ranks = np.stack([rankdata(one.ravel()), rankdata(other.ravel())])
            found.append(float(np.corrcoef(ranks)[0, 1]))
    return float(np.mean(found)) if found else 0.0
