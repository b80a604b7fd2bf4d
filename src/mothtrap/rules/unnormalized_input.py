"""DAT501: the data of a first layer are not scaled for its weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.texts import layer_in_words
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._choice import ANY_LAYER, is_chosen
from mothtrap.rules._data import by_layer, feature_rms
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED

PIXELS = "Scale the pixels: `x / 255`."
FEATURES = (
    "Scale each feature to mean 0 and standard deviation 1, with the statistics of the training "
    "data only."
)

PLACEHOLDERS = (99.0, 999.0, 9999.0, 99999.0)
CODED = 0.2
"""Deviation of the variance from that of values which are all 0, except for the placeholder; chosen
by hand."""
MISSING = (
    "Replace {0:g}, which stands for missing values, before scaling: `x[x == {0:g}] = nan`, then "
    "the mean of the column in the training data."
)
MARKED = "Add a column that marks missing values, if the model should know about them."


@frozen
class UnnormalizedInput(Rule):
    """The input of a layer is not scaled for the layer's weights.

    What it detects:
        Float data, such as pixels from 0 to 255 or a raw measurement, that reach the first layer
        unscaled. The rule checks the input of the first layers with weights, after any
        preprocessing inside the model.

    Why it matters:
        Weights are initialized for inputs of mean 0 and standard deviation 1. Inputs that are 100
        times larger make outputs and gradients 100 times larger. A usual learning rate then
        diverges or kills units, and one feature can dominate all others. If the inputs are far too
        small, only the biases matter.

    Fires:
        Warning when, in `looks` sampled batches, the root mean square of the data is above
        `large_rms`, or the root mean square of one feature above `large_feature_rms`, and the
        output of the layer with its weights is above `large_effect`. Also when the nonzero values
        are below `small_rms`. With `threshold_mean`, also when the absolute mean of the data, or of
        the channel `channel` (counted from 1), exceeds it over at least `threshold_samples` rows.
        `layer_regex` selects the layers by path. If a number such as -999 explains the scale,
        `looks` batches with it are enough, even if most batches have none.

    Stays quiet:
        Token ids and embeddings. Data that a normalization layer gets first or right after the
        first layer. Data that the model itself rescales. Weights that are small enough to
        compensate. Sparse data such as one-hot vectors. Outputs of other trained layers.

    What to do:
        - Scale the inputs: pixels with `x / 255`, features to mean 0 and standard deviation 1, with
          statistics of the training data only.
        - Apply the same scaling in evaluation and in production.
        - PyTorch: If the scale is not known beforehand, put a normalization layer first:
          `nn.BatchNorm1d(features, affine=False)`.
        - Keras: Or begin the model with `keras.layers.Rescaling(1 / 255)`, or with a
          `keras.layers.Normalization()` that was adapted to the training data.

    Example:
        x = torch.tensor(images, dtype=torch.float32)           # 0..255
        x = (x / 255 - 0.5) / 0.5

    References:
        LeCun, Bottou, Orr, Müller 1998, Efficient BackProp, section 4.3,
        http://yann.lecun.com/exdb/publis/pdf/lecun-98b.pdf
    """

    code = "DAT501"
    needs = (Need(facts=(DataTaken,)),)
    explains = (
        "initial_loss",
        *NOT_FINITE,
        *UNLEARNED,
        "activation_growth",
        "constant_prediction",
        "too_few_passes",
        "clipping_every_step",
        "constant_output",
        "dead_units",
        "epsilon_too_large",
        "eval_columns_differ",
        "exploding_gradient",
        "gradient_spike",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "overflow_risk",
        "overtraining",
        "saturated_activation",
        "update_ratio",
        "vanishing_gradient",
        "weight_growth",
        "wrong_initial_loss",
    )

    large_rms: float = threshold(
        10.0,
        unit="root mean square of the data",
        source="chosen by hand: models still learn from values of 0 to 16",
    )
    large_feature_rms: float = threshold(
        50.0, unit="root mean square of one feature", source="chosen by hand"
    )
    large_effect: float = threshold(
        4.0,
        unit="root mean square of the first layer's output",
        source="chosen by hand: standard layers give 0.3 to 1.5 for standard inputs",
    )
    small_rms: float = threshold(
        0.005, unit="root mean square of the values that are not 0", source="chosen by hand"
    )
    looks: int = threshold(2, unit="sampled batches, all different", source="chosen by hand")
    threshold_mean: float = threshold(
        math.inf, unit="absolute mean; 0.2 is usual for images", source="chosen by hand: off"
    )
    threshold_samples: int = threshold(
        500, unit="rows before `threshold_mean` applies", source="chosen by hand"
    )
    channel: int = threshold(
        10**9,
        unit="channel whose mean is checked, from 1",
        source="chosen by hand: no such channel, so all channels are checked together",
    )
    layer_regex: str = threshold(
        ANY_LAYER, unit="regular expression over layers", source="chosen by hand: all layers"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the input of every first layer."""
        every = by_layer(window)
        taken = {layer: every[layer] for layer in every if is_chosen(layer, self.layer_regex)}
        if not taken:
            if window.total_steps < self.looks:
                raise NotEnoughData("no layer that receives input data was recorded")
            raise NotApplicable("no layer with weights takes float data")
        if max(len(looks) for looks in taken.values()) < self.looks:
            raise NotEnoughData(f"fewer than {self.looks} batches were sampled")
        found = [finding for looks in taken.values() for finding in self._judge(window, looks)]
        return sorted(found, key=lambda finding: finding.step)[:1]

    def _judge(self, window: Window, looks: list[DataTaken]) -> Iterable[Finding]:
        off = [look for look in looks if self._what(look)]
        coded = [look for look in off if placeholder(look)]
        if len(coded) >= max(self.looks, len(off) // 2):
            yield self._finding(window, coded, self._what(coded[0]))
        elif len(off) >= self.looks and 2 * len(off) > len(looks):
            yield self._finding(window, off, self._what(off[0]))
        else:
            yield from self._judge_mean(window, looks)

    def _what(self, look: DataTaken) -> str:
        """Return how the scale of a sampled batch is wrong, '' if it is fine."""
        if look.normalized or not look.rms:
            return ""
        if look.rms > self.large_rms and look.gain * look.rms > self.large_effect:
            return f"their root mean square is {look.rms:.3g}"
        feature = feature_rms(look)
        if len(feature):
            worst = int(np.argmax(feature))
            effect = look.gain * look.rms
            if feature[worst] > self.large_feature_rms and effect > self.large_effect:
                return f"the root mean square of feature {worst} is {feature[worst]:.3g}"
        if look.nonzero_rms < self.small_rms and look.gain * look.nonzero_rms < self.small_rms:
            return f"their root mean square is {look.rms:.3g}"
        return ""

    def _judge_mean(self, window: Window, looks: list[DataTaken]) -> Iterable[Finding]:
        examples = np.array([look.shape[0] for look in looks])
        if examples.sum() < self.threshold_samples:
            return
        means = np.array([self._mean(look) for look in looks])
        mean = float((means * examples).sum() / examples.sum())
        if abs(mean) > self.threshold_mean:
            yield self._finding(window, looks, f"their mean is {mean:.3g}")

    def _mean(self, look: DataTaken) -> float:
        chosen = 1 <= self.channel <= len(look.feature_means)
        return look.feature_means[self.channel - 1] if chosen else look.mean

    def _finding(self, window: Window, off: list[DataTaken], what: str) -> Finding:
        first = off[0]
        fixes = (PIXELS if _are_pixels(first) else FEATURES, *self.fixes(window)[1:])
        if value := placeholder(first):
            what += f", because {first.mean / value:.2g} of the values are {value:g}"
            fixes = (MISSING.format(value), MARKED)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=first.step,
            last_step=off[-1].step,
            count=len(off),
            layers=(first.layer,),
            message=(
                f"{layer_in_words(first.layer)} ({first.layer_type}) gets data from "
                f"{first.smallest:.3g} to {first.largest:.3g}: {what}, but its weights are "
                "initialized for inputs of about 1"
            ),
            evidence={
                "value": first.rms,
                "limit": self.large_rms if first.rms > 1 else self.small_rms,
                "mean": first.mean,
                "std": first.std,
                "gain": first.gain,
            },
            location=first.location,
            fixes=fixes,
        )


def placeholder(data: DataTaken) -> float | None:
    """Return a number such as -999 that stands for missing values, if it explains the scale."""
    for value in (data.smallest, data.largest):
        share = data.mean / value if abs(value) in PLACEHOLDERS else 0.0
        if not 0 < share < 1:
            continue
        if abs(data.std**2 / (share * (1 - share) * value**2) - 1) <= CODED:
            return value
    return None


def _are_pixels(data: DataTaken) -> bool:
    return data.smallest >= 0 and 200 <= data.largest <= 256
