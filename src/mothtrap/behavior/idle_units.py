"""Channels of a network that no prediction depends on, and channels that copy another channel.

Shape suffixes: R = rows, U = channels of a layer, P = rows and positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.channels import ROWS, hidden_layers
from mothtrap.behavior.inside import Floats, Margin, network_of, questions
from mothtrap.behavior.subject import Subject

MOST_POSITIONS = 4_096
MOST_CHANNELS = 2_048
"""Channels of a layer up to which copies are searched for; chosen by hand: the comparison is
quadratic."""
SAME = 0.999
"""Correlation and cosine from which on two channels count as copies; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleUnits:
    """Channels of one layer.

    Attributes:
        layer: name of the layer.
        count: number of its channels.
        dead: Channels that no prediction depends on, or that never change.
        copies: Channels that are a multiple of an earlier channel, with its number.
    """

    layer: str
    count: int
    dead: tuple[int, ...]
    copies: tuple[tuple[int, int], ...]

    @property
    def share(self) -> float:
        """Share of the channels that are dead or copies."""
        return (len(self.dead) + len(self.copies)) / max(self.count, 1)


def idle_units(subject: Subject, rows: npt.NDArray[np.int64]) -> list[IdleUnits]:
    """Return the idle channels of each hidden linear and convolutional layer.

    A channel is dead if the margin of the predicted class has no gradient with respect to it in any
    row, which also covers activations that are always off.

    Raises:
        NotApplicable: the model is not a network, or has no hidden layer.
        BudgetSpent: no predictions are left.
    """
    network = network_of(subject)
    given = subject.table.take(rows[:ROWS]).data
    with questions(subject, 2 * len(given)):
        output = network.outputs(given)
        weight = Margin.of(subject, output).weights(output)
        hidden = hidden_layers(network, given)
    found = []
    for layer in hidden:
        with questions(subject, len(given)):
            gradient = network.gradient(given, weight, layer.name)
        value_PU = layer.values.reshape(-1, layer.values.shape[-1]).astype(np.float64)
        slope_PU = gradient.reshape(value_PU.shape)
        idle_U = (slope_PU == 0).all(axis=0) | (np.ptp(value_PU, axis=0) == 0)
        found.append(
            IdleUnits(
                layer=layer.name,
                count=len(idle_U),
                dead=tuple(np.flatnonzero(idle_U).tolist()),
                copies=_copies(value_PU, np.flatnonzero(~idle_U)),
            )
        )
    return found


def _copies(value_PU: Floats, live: npt.NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Return the live channels that are a multiple of an earlier channel.

    The correlation and the cosine must agree: a shifted channel differs after a nonlinear
    activation, and channels that hardly vary have a large cosine.
    """
    if len(live) < 2 or len(live) > MOST_CHANNELS:
        return ()
    step = max(1, len(value_PU) // MOST_POSITIONS)
    some = value_PU[::step][:, live]
    centred = some - some.mean(axis=0)
    same = _cosines(centred) > SAME
    same &= _cosines(some) > SAME
    found = []
    for place in range(1, len(live)):
        earlier = np.flatnonzero(same[place, :place])
        if len(earlier):
            found.append((int(live[place]), int(live[earlier[0]])))
    return tuple(found)


def _cosines(value_PU: Floats) -> Floats:
    unit = value_PU / np.maximum(np.linalg.norm(value_PU, axis=0), 1e-30)
    return np.asarray(unit.T @ unit)
