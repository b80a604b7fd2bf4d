"""BEH704: channels of a network that do nothing, or that copy another channel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.idle_units import idle_units
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class IdleUnits(Probe):
    """Channels of a layer are dead, or copies of other channels.

    What it detects:
        In each hidden linear and convolutional layer: channels for which the prediction has no
        gradient in any row, and channels that are a multiple of another one in all rows.

    Why it matters:
        Such channels cost time and memory, and add nothing. If there are many, training went wrong
        early: the learning rate switched activations off, or initial weights were equal.

    Fires:
        When a tenth of a layer's channels, and at least two, are dead or copies.

    Stays quiet:
        Models that are not PyTorch or Keras networks, and the last layer.

    What to do:
        - Use a smaller layer, or remove these channels.
        - Train with a lower learning rate or a leaky activation if many channels are dead.

    References:
        Lu et al., Dying ReLU and initialization, 2020.
    """

    code = "BEH704"
    severity = Severity.INFO
    title = "dead or copied channels"
    cost = 2

    least: float = threshold(0.1, unit="share of the layer's channels", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Inspect the gradients and values of each hidden layer."""
        for layer in idle_units(subject, np.sort(subject.asked)):
            idle = len(layer.dead) + len(layer.copies)
            if idle < 2 or layer.share < self.least:
                continue
            parts = []
            if layer.dead:
                parts.append(f"{len(layer.dead):,} have no effect on any prediction")
            if layer.copies:
                parts.append(f"{len(layer.copies):,} copy another channel")
            yield Suspicion(
                message=f"{percent(layer.share)} of the {layer.count:,} channels of the layer "
                f"{layer.layer} are not needed: {', '.join(parts)}",
                features=(layer.layer,),
                exact=True,
                evidence={
                    "layer": layer.layer,
                    "n": layer.count,
                    "dead": list(layer.dead[:20]),
                    "copies": [copy for copy, _ in layer.copies[:20]],
                    "value": layer.share,
                    "reference": self.least,
                },
            )
