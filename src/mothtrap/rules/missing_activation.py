"""STR716: hidden layers have no activation, so the model is linear."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

LAYERS_NAMED = 10
"""Maximum number of layers that a finding names."""


@frozen
class MissingActivation(Rule):
    """Hidden layers have no activation, so the model is linear.

    What it detects:
        Consecutive dense or convolutional layers with no nonlinearity between them, in a model that
        is linear up to its last layer.

    Why it matters:
        A product of matrices is a matrix. However many layers the model has, it can learn no more
        than a single layer can.

    Fires:
        Warning at the first step.

    Stays quiet:
        Models with one layer. Models with an activation, max pooling, or a layer of an unknown type
        before the last layer. Models whose hidden layers are narrower than input and output, such
        as a linear autoencoder: they learn a low-rank product.

    What to do:
        - Give the hidden layers an activation: `keras.layers.Dense(64, activation="relu")`.

    Example:
        keras.layers.Dense(64)                          # and Dense(10, "softmax") after it
        keras.layers.Dense(64, activation="relu")

    References:
        https://keras.io/api/layers/activations/
    """

    code = "STR716"
    needs = (Need(facts=(ModelCompiled,)),)
    explains = (*UNLEARNED, "constant_prediction", "overtraining")

    def check(self, window: Window) -> list[Finding]:
        """Check the newest record of every compiled model."""
        seen = list(window.seen(ModelCompiled))
        if not seen:
            raise NotEnoughData("no model was compiled")
        newest = {one.model: one for one in seen}
        return [self._finding(window, one) for one in newest.values() if one.linear_layers][:1]

    def _finding(self, window: Window, one: ModelCompiled) -> Finding:
        layers = one.linear_layers
        are = "layers have" if len(layers) > 1 else "layer has"
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.step,
            last_step=window.last_step,
            layers=layers[:LAYERS_NAMED],
            message=f"{len(layers)} hidden {are} no activation, and nothing else before the last "
            f"layer of {one.model} is nonlinear: the model can learn no more than a single layer",
            evidence={"hidden_layers": len(layers)},
            location=one.linear_location or one.location,
        )
