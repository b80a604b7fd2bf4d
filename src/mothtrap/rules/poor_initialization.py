"""WGT301: the scale of the initial weights is far from the recommended one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import ForwardScales, InitialWeights, LayerScale
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._choice import ANY_LAYER, is_chosen
from mothtrap.rules._effects import CONFUSED, NOT_FINITE

LARGEST_GAIN = 2.0**0.5
"""Gain of He initialization, the largest usual gain."""
SMALLEST_GAIN = 3.0**-0.5
"""Gain of PyTorch's default initialization of linear layers, the smallest usual gain."""
MIN_FAN_IN = 8
"""Layers with fewer inputs are not checked for their gain: any scale may be intended."""
LAYERS_NAMED = 10


@frozen
class PoorInitialization(Rule):
    """The scale of the initial weights is far from the recommended one.

    What it detects:
        Layers whose initial weights change the scale of their input by far more or far less than a
        factor of 1, and layers whose weights all equal one constant.

    Why it matters:
        The factors multiply from layer to layer. Factors that are too large saturate activations
        and make gradients explode. Factors that are too small let the signal vanish, until the last
        layers see only biases and no gradient flows back.

    Fires:
        Warning in three cases, before the first step. The mean square of a hidden layer's weights
        times its fan-in is more than `theory_ratio` times the largest recommended value (He: 2),
        and its output is `effect_ratio` times its input. In `small_layers` or more hidden layers of
        a model without normalization it is less than 1/`theory_ratio` of the smallest recommended
        value (PyTorch: 1/3), and hardly any signal is left: their output is small, or it is less
        than `of_biases` of the input and consists of biases. All weights of a hidden layer are one
        nonzero number. Off by default: in the first `steps` steps the variances of layer outputs
        differ by more than `variance_ratio`, the middle 90 % of a layer's gradients lie within
        `distribution_range`, or the loss does not fall for `patience` consecutive steps.
        `layer_regex` selects the layers by path.

    Stays quiet:
        Layers that a normalization follows. Small weights in models that normalize (as in
        transformers, which use 0.02 on purpose). Last layers. Zero layers. Embeddings. Layers with
        fewer than 8 inputs. Sine networks.

    What to do:
        - PyTorch: Use the initialization that fits your activation: `nn.init.kaiming_normal_` for
          ReLU, `nn.init.xavier_uniform_` for tanh or sigmoid.
        - Keras: Use the initialization that fits your activation: `kernel_initializer="he_normal"`
          for ReLU, the default `"glorot_uniform"` for tanh or sigmoid.
        - JAX: Use the initialization that fits your activation: `jax.nn.initializers.he_normal()`
          for ReLU, `glorot_uniform()` for tanh or sigmoid.
        - PyTorch: Or keep PyTorch's default initialization.
        - Put normalization layers between the layers of deep networks.

    Example:
        nn.init.normal_(layer.weight, std=1.0)           # 512 inputs: grows by 22 a layer
        nn.init.kaiming_normal_(layer.weight)

    References:
        Glorot, Bengio 2010, https://proceedings.mlr.press/v9/glorot10a.html;
        He et al. 2015, Delving deep into rectifiers, https://arxiv.org/abs/1502.01852
    """

    code = "WGT301"
    needs = (
        Need(facts=(InitialWeights, ForwardScales)),
        Need(scalars=("loss",), optional=True),
    )
    explains = (
        *NOT_FINITE,
        "activation_growth",
        "clipping_every_step",
        *CONFUSED,
        "constant_output",
        "dead_units",
        "exploding_gradient",
        "gradient_spike",
        "learning_rate_too_high",
        "learning_rate_too_low",
        "loss_diverging",
        "loss_not_decreasing",
        "loss_oscillating",
        "loss_spike",
        "overflow_risk",
        "saturated_activation",
        "stuck_at_chance",
        "update_ratio",
        "vanishing_gradient",
        "wrong_initial_loss",
    )

    theory_ratio: float = threshold(
        10.0, unit="times the recommended variance", source="chosen by hand; a common default"
    )
    effect_ratio: float = threshold(
        4.0, unit="times the size of the layer's input", source="chosen by hand"
    )
    small_layers: int = threshold(2, unit="hidden layers", source="chosen by hand")
    of_biases: float = threshold(
        0.25,
        unit="times the size of the first input",
        source="chosen by hand: PyTorch's biases are at 0.2 for 8 inputs, and residuals keep 1",
    )
    variance_ratio: float = threshold(
        math.inf, unit="ratio of variances; 10 is a common default", source="chosen by hand: off"
    )
    distribution_range: float = threshold(
        0.0, unit="width of the gradients; 0.001 is common", source="chosen by hand: off"
    )
    patience: int = threshold(
        10**9, unit="consecutive steps; 5 is common", source="chosen by hand: off"
    )
    steps: int = threshold(10, unit="first steps", source="a common default")
    layer_regex: str = threshold(
        ANY_LAYER, unit="regular expression over layers", source="chosen by hand: all layers"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the initial weights, and the scale of the first forward."""
        weights = [w for w in window.seen(InitialWeights) if is_chosen(w.layer, self.layer_regex)]
        if not weights:
            if window.total_steps < 1:
                raise NotEnoughData(
                    "no weights were recorded before the first step of an optimizer"
                )
            raise NotApplicable("no layer with weights is trained")
        looks = [look for look in window.seen(ForwardScales) if look.step < self.steps]
        first: dict[str, ForwardScales] = {}
        for look in looks:
            first.setdefault(look.root, look)
        judged = (
            self._too_large(weights, list(first.values())),
            self._too_small(weights, list(first.values())),
            self._constant(weights, list(first.values())),
            self._uneven(looks),
            self._narrow(weights),
            self._no_fall(window),
        )
        found = next((verdict for verdict in judged if verdict), None)
        return [self._finding(window, found)] if found else []

    def _too_large(self, weights: list[InitialWeights], first: list[ForwardScales]) -> _Poor | None:
        limit = (self.theory_ratio**0.5) * LARGEST_GAIN
        trained = {weight.layer for weight in weights}
        large = [
            layer
            for layer in _hidden(first, trained)
            if layer.gain > limit
            and layer.fan_in >= MIN_FAN_IN
            and layer.output_rms > self.effect_ratio * layer.input_rms
        ]
        if not large:
            return None
        worst = max(large, key=lambda layer: layer.gain)
        return _Poor(
            layers=tuple(layer.layer for layer in large),
            message=(
                f"the weights of {worst.layer} ({worst.layer_type}, {worst.fan_in} inputs) have a "
                f"root mean square of {worst.gain / worst.fan_in**0.5:.3g}; "
                f"{LARGEST_GAIN / worst.fan_in**0.5:.3g} keeps the scale; the layer's output is "
                f"{worst.output_rms / max(worst.input_rms, 1e-30):.3g}x the size of its input"
            ),
            evidence={"value": worst.gain, "limit": limit},
            location=worst.location,
        )

    def _too_small(self, weights: list[InitialWeights], first: list[ForwardScales]) -> _Poor | None:
        limit = SMALLEST_GAIN / self.theory_ratio**0.5
        trained = {weight.layer for weight in weights}
        for look in first:
            if look.normalizes:
                continue
            hidden = [layer for layer in _hidden([look], trained) if layer.fan_in >= MIN_FAN_IN]
            small = [layer for layer in hidden if 0 < layer.gain < limit]
            if len(small) < self.small_layers or not hidden[0].input_rms:
                continue
            left = hidden[-1].output_rms / hidden[0].input_rms
            signal = math.prod(layer.gain for layer in small)
            if left >= limit**2 and not (left < self.of_biases and signal < limit**2):
                continue
            told = "is" if left < limit**2 else "consists of biases, and is"
            return _Poor(
                layers=tuple(layer.layer for layer in small),
                message=(
                    f"the weights of {len(small)} hidden layers are so small that the output "
                    f"of {hidden[-1].layer} ({hidden[-1].layer_type}) {told} {left:.2g}x the size "
                    f"of the input of {hidden[0].layer}"
                ),
                evidence={"value": left, "limit": limit**2, "gain": small[-1].gain},
                location=small[0].location,
            )
        return None

    def _constant(self, weights: list[InitialWeights], first: list[ForwardScales]) -> _Poor | None:
        hidden = {layer.layer for look in first for layer in look.layers if not layer.last}
        same = [w for w in weights if w.rms > 0 and w.std <= 1e-6 * w.rms and w.layer in hidden]
        same = [weight for weight in same if weight.units > 1 and weight.fan_in > 1]
        if not same:
            return None
        return _Poor(
            layers=tuple(weight.layer for weight in same),
            message=f"all weights of {same[0].layer} ({same[0].layer_type}) are {same[0].rms:.3g}",
            evidence={"value": same[0].std, "limit": 0.0},
            location=same[0].location,
        )

    def _uneven(self, looks: list[ForwardScales]) -> _Poor | None:
        for look in looks:
            chosen = [layer for layer in look.layers if is_chosen(layer.layer, self.layer_regex)]
            if len(chosen) < 2:
                continue
            smallest = min(chosen, key=lambda layer: layer.variance)
            largest = max(chosen, key=lambda layer: layer.variance)
            ratio = largest.variance / max(smallest.variance, 1e-30)
            if ratio > self.variance_ratio:
                return _Poor(
                    step=look.step,
                    layers=(largest.layer, smallest.layer),
                    message=(
                        f"the output of {largest.layer} has {ratio:.3g}x the variance of the "
                        f"output of {smallest.layer} (limit {self.variance_ratio:g}x)"
                    ),
                    evidence={"value": ratio, "limit": self.variance_ratio},
                    location=largest.location,
                )
        return None

    def _narrow(self, weights: list[InitialWeights]) -> _Poor | None:
        narrow = [
            weight
            for weight in weights
            if weight.gradient_range is not None and weight.gradient_range < self.distribution_range
        ]
        if not narrow:
            return None
        first = narrow[0]
        return _Poor(
            layers=tuple(weight.layer for weight in narrow),
            message=(
                f"the first gradients of {first.layer} ({first.layer_type}) lie within "
                f"{first.gradient_range:.3g} (limit {self.distribution_range:g})"
            ),
            evidence={"value": first.gradient_range, "limit": self.distribution_range},
            location=first.location,
        )

    def _no_fall(self, window: Window) -> _Poor | None:
        if self.patience > self.steps:
            return None
        for series in window.scalars("loss"):
            loss_S = series.values_S[series.steps_S < self.steps]
            falls = np.flatnonzero(np.diff(loss_S) < 0)
            ends = np.concatenate(([-1], falls, [len(loss_S) - 1]))
            longest = int(np.diff(ends).max()) - (len(loss_S) > 0)
            if longest >= self.patience:
                return _Poor(
                    layers=(),
                    message=f"the loss has not fallen in {longest} consecutive steps at the start",
                    evidence={"value": longest, "limit": self.patience},
                    location=series.location,
                )
        return None

    def _finding(self, window: Window, poor: _Poor) -> Finding:
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=poor.step,
            layers=tuple(dict.fromkeys(poor.layers))[:LAYERS_NAMED],
            message=poor.message,
            evidence=poor.evidence,
            location=poor.location,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Poor:
    layers: tuple[str, ...]
    message: str
    evidence: dict[str, EvidenceValue]
    location: str | None
    step: int = 0


def _hidden(first: list[ForwardScales], trained: set[str]) -> list[LayerScale]:
    """The trained layers that are neither the last nor followed by a normalization."""
    return [
        layer
        for look in first
        for layer in look.layers
        if not layer.last and not layer.normalized and layer.layer in trained
    ]
