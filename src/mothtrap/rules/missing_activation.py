"""STR716: hidden layers without an activation, so that several layers do what one could."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

LAYERS_NAMED = 10
"""Layers that a finding names, at most."""


@dataclass(frozen=True)
class MissingActivation(Rule):
    """Hidden layers have no activation, so the model is a linear one.

    What it detects:
        Dense and convolutional layers that follow each other with nothing nonlinear between
        them, in a model that has nothing nonlinear before its last layer.

    Why it matters:
        Products of matrices are a matrix: the model can learn what its last layer alone could,
        however many layers it has.

    Fires:
        Warning at the first step.

    Stays quiet:
        Models with one layer, with an activation, a pooling by the maximum or a layer of an
        unknown kind somewhere before the last one, and those whose hidden layers are narrower
        than input and output: a product of low rank, such as a linear autoencoder.

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
        """Look at the wiring of every model."""
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
            f"layer of {one.model} is nonlinear: it can learn what one layer could",
            evidence={"hidden_layers": len(layers)},
            location=one.linear_location or one.location,
        )
