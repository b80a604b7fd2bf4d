"""Hidden channels of a network, and the importance of each channel.

Shape suffixes: R = rows, U = channels of a layer, K = outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mothtrap.behavior.inside import Floats, Margin, questions
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.wrapped_models import LayerOutput, Network

ROWS = 512
"""Rows that the network gets; chosen by hand: the outputs of all layers are in memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """Channels of one hidden layer.

    Attributes:
        layer: name of the layer.
        importance_U: share of each channel in the layer, float64.
        mean_U: mean of each channel over rows and positions, float64.
    """

    layer: str
    importance_U: Floats
    mean_U: Floats


def hidden_channels(subject: Subject, network: Network, rows: Any) -> list[Channels]:
    """Return the channels of the hidden linear and convolutional layers, in the order of calls.

    The importance is the mean of |deviation of the activation x gradient of the margin|, summed
    over positions, as a share of the length of the layer's vector (Molchanov et al., 2017). The
    gradient of the loss is not used because it vanishes for all rows that the model gets right. The
    last layer is the output, and is left out.

    Raises:
        NotApplicable: the network has several inputs, or no hidden layer.
        BudgetSpent: no predictions are left.
    """
    if isinstance(rows, dict):
        raise NotApplicable("the inputs are several arrays")
    given = rows[:ROWS]
    with questions(subject, 2 * len(given)):
        output_RK = network.outputs(given)
        weight_RK = Margin.of(subject, output_RK).weights(output_RK)
        hidden = hidden_layers(network, given)
    found = []
    for layer in hidden:
        mean_U = layer.values.mean(axis=tuple(range(layer.values.ndim - 1)), dtype=np.float64)
        with questions(subject, 2 * len(given)):
            slope = network.gradient(given, weight_RK, layer.name)
        product = (layer.values - mean_U) * slope
        size_U = np.abs(product.sum(axis=tuple(range(1, product.ndim - 1)))).mean(axis=0)
        length = float(np.sqrt(np.square(size_U).sum()))
        found.append(
            Channels(
                layer=layer.name,
                importance_U=size_U / length if length else size_U,
                mean_U=mean_U,
            )
        )
    return found


def hidden_layers(network: Network, rows: Any) -> list[LayerOutput]:
    """Return the outputs of the linear and convolutional layers without the last one.

    Raises:
        NotApplicable: the network has no hidden layer.
    """
    hidden = [each for each in network.layers(rows) if each.kind != "other"][:-1]
    if not hidden:
        raise NotApplicable("the network has no hidden layer")
    return hidden
