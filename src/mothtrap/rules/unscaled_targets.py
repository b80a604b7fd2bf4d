"""DAT516: the regression targets are far larger than the model's predictions."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED
from mothtrap.rules._loss_calls import by_place, targets_move, train_calls
from mothtrap.rules._losses import has_players, loss_series

GREW = 10.0
"""Multiple of the first loss that a diverging loss exceeds before it breaks; chosen by hand."""


@frozen
class UnscaledTargets(Rule):
    """The regression targets are far larger than the model's predictions.

    What it detects:
        Targets in raw units, such as prices or counts, that the predictions do not come near, or
        whose gradients break the training in its first steps.

    Why it matters:
        A new model predicts numbers of about 1. An optimizer that moves each weight by the learning
        rate needs hundreds of thousands of steps to reach 300,000. One that moves it by the
        gradient takes steps as large as the targets, and diverges.

    Fires:
        Warning when the mean target is at least `scale`, and after `steps` steps no prediction in
        the latest `looks` samples has reached `short` of it. If targets lie on both sides of 0:
        when no prediction has reached `short_of_range` of the largest target and predictions are
        still `growing`. Also when targets of `huge` or more, out of reach in the first sample, are
        followed by a loss that grows and becomes NaN or infinite within `steps` steps. Also when
        targets that are out of reach in the first sample are followed by a rectifier that loses
        `dead_share` of its units. Also when, in at least `slow_steps` steps, more than
        `wasted_share` of the steps passed before the predictions reached `short` of the mean
        target, or `scaled_range` of the largest if targets lie on both sides of 0. With scaled
        targets, the first predictions are already there.

    Stays quiet:
        Targets that the model soon reaches, whatever their scale. Class losses. Models that learn
        from their own output, and competing losses (GAN).

    What to do:
        - Scale the targets: train on `(y - y.mean()) / y.std()`, with statistics of the training
          data, and scale the predictions back.
        - PyTorch: Or initialize the bias of the last layer with the mean target:
          `nn.init.constant_(layer.bias, y.mean())`.
        - Keras: Or initialize the bias of the last layer with the mean target: `Dense(1,
          bias_initializer=keras.initializers.Constant(y.mean()))`.

    Example:
        model.fit(x, prices)                               # 80,000 to 900,000
        model.fit(x, (prices - prices.mean()) / prices.std())

    References:
        LeCun, Bottou, Orr, Müller 1998, Efficient BackProp, section 4.5,
        http://yann.lecun.com/exdb/publis/pdf/lecun-98b.pdf
    """

    code = "DAT516"
    title = "unscaled targets"
    needs = (
        Need(facts=(LossCall,)),
        Need(facts=(BootstrappedTargets,), scalars=("loss",), optional=True),
        Need(
            kinds=("activation",),
            statistics=("inactive",),
            roles=("rectifier",),
            every=16,
            steps=64,
            optional=True,
        ),
    )
    explains = (
        *NOT_FINITE,
        *UNLEARNED,
        "activation_growth",
        "clipping_every_step",
        "constant_output",
        "dead_units",
        "exploding_gradient",
        "gradient_spike",
        "learning_rate_too_high",
        "learning_rate_too_low",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "overtraining",
        "update_ratio",
        "vanishing_gradient",
        "weight_growth",
    )
    passes = True

    scale: float = threshold(20.0, unit="mean target", source="chosen by hand")
    short: float = threshold(0.5, unit="of the mean target", source="chosen by hand")
    short_of_range: float = threshold(0.05, unit="of the largest target", source="chosen by hand")
    growing: float = threshold(
        1.2, unit="times the predictions a third of the steps earlier", source="chosen by hand"
    )
    huge: float = threshold(100.0, unit="largest target", source="chosen by hand")
    steps: int = threshold(100, unit="steps", source="chosen by hand")
    looks: int = threshold(3, unit="consecutive samples", source="chosen by hand")
    scaled_range: float = threshold(
        0.1,
        unit="of the largest target",
        source="a new model predicts up to 0.3, and scaled targets go to about 3",
    )
    wasted_share: float = threshold(
        0.1,
        unit="of all steps",
        source="measured: 0.14 with targets of 100 times their usual size, which raised the "
        "error by half",
    )
    slow_steps: int = threshold(200, unit="steps", source="chosen by hand")
    dead_share: float = threshold(0.7, unit="of the units of a layer", source="same as in ACT201")

    def check(self, window: Window) -> list[Finding]:
        """Compare targets and predictions of every elementwise loss."""
        calls = [call for call in train_calls(window) if call.operation == "elementwise"]
        if not calls:
            raise NotApplicable("no regression loss was recorded")
        if has_players(window) or targets_move(window):
            raise NotApplicable("the targets are outputs of the model")
        seen = [call for call in calls if _reached(call) is not None and _size(call) is not None]
        if not seen:
            raise NotEnoughData("no targets were recorded together with predictions")
        found = [finding for same in by_place(seen) if (finding := self._judge(window, same))]
        if not found and max(call.step for call in seen) < self.steps:
            raise NotEnoughData(f"fewer than {self.steps} steps were recorded")
        return found[:1]

    def _judge(self, window: Window, calls: list[LossCall]) -> Finding | None:
        last = calls[-1]
        words = (
            self._out_of_reach(calls) or self._effect(window, calls) or self._slowly_reached(calls)
        )
        if words is None:
            return None
        sampled = [call.targets for call in calls if call.targets is not None]
        least = min(sample.least for sample in sampled if sample.least is not None)
        greatest = max(sample.greatest for sample in sampled if sample.greatest is not None)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=calls[0].step,
            last_step=last.step,
            count=len(calls),
            message=f"the targets range from {least:.3g} to {greatest:.3g}, {words}",
            evidence={
                "least": least,
                "greatest": greatest,
                "reached": max(_reached(call) or 0.0 for call in calls),
                "limit": self.short,
            },
            location=last.location,
        )

    def _out_of_reach(self, calls: list[LossCall]) -> str | None:
        """Describe how far the latest predictions are from the targets."""
        latest, last = calls[-self.looks :], calls[-1]
        if last.step < self.steps or len(latest) < self.looks:
            return None
        if not all(map(self._is_short, latest)):
            return None
        if _straddle_zero(last) and not self._grow(calls):
            return None  # single targets are outliers, and the others are predicted
        reached = max(_reached(call) or 0.0 for call in latest)
        return f"but no prediction exceeds {reached:.3g} after {last.step} steps"

    def _effect(self, window: Window, calls: list[LossCall]) -> str | None:
        """Describe the effect of targets that were out of range at first."""
        if not self._is_short(calls[0]):
            return None
        broken = self._breaks(window) if calls[-1].step < self.steps else None
        if broken is not None and (_size(calls[-1]) or 0.0) >= self.huge:
            return f"and the loss is not finite after {broken} steps"
        died = self._died(window)
        if died is None:
            return None
        layer, share = died
        reached = _reached(calls[0]) or 0.0
        return (
            f"but the first predictions do not exceed {reached:.3g}. Large steps followed, and "
            f"{share:.0%} of the units of {layer} are no longer active"
        )

    def _slowly_reached(self, calls: list[LossCall]) -> str | None:
        """Describe the steps that were spent on reaching the size of the targets."""
        last = calls[-1].step
        if last < self.slow_steps or not self._is_short(calls[0]):
            return None
        near = next((place for place, call in enumerate(calls) if self._is_near(call)), None)
        wasted = calls[near - 1].step if near else 0
        if near is None or wasted <= self.wasted_share * last:
            return None
        reached, size = _reached(calls[0]) or 0.0, _size(calls[near]) or 0.0
        return (
            f"but the first predictions do not exceed {reached:.3g}, and it took more than "
            f"{wasted} of {last} steps until a prediction exceeded "
            f"{_reached(calls[near]) or 0.0:.3g} (largest target: {size:.3g})"
        )

    def _is_near(self, call: LossCall) -> bool:
        """Return whether predictions have the size that they would have with scaled targets."""
        reached = _reached(call) or 0.0
        if _straddle_zero(call):
            return reached >= self.scaled_range * (_size(call) or 0.0)
        mean = call.targets.mean if call.targets is not None else None
        return reached >= self.short * abs(mean or 0.0)

    def _died(self, window: Window) -> tuple[str, float] | None:
        """Return a rectifier whose units were active at first, and the share that has died."""
        inactive = window.matrix("activation", "inactive")
        if inactive is None:
            return None
        for column, tensor in enumerate(inactive.tensors):
            share_S = inactive.values_ST[inactive.present_ST[:, column], column]
            share_S = share_S[np.isfinite(share_S)]
            if len(share_S) <= self.looks or share_S[0] >= self.dead_share / 2:
                continue
            least = float(share_S[-self.looks :].min())
            if least >= self.dead_share:
                return tensor.module or tensor.name, least
        return None

    def _is_short(self, call: LossCall) -> bool:
        """Return whether all predictions of a call are far from their targets."""
        sample, reached, size = call.targets, _reached(call) or 0.0, _size(call) or 0.0
        if sample is None or size < self.scale:
            return False
        if _straddle_zero(call):
            return reached < self.short_of_range * size
        mean = abs(sample.mean or 0.0)
        return mean >= self.scale and reached < self.short * mean

    def _grow(self, calls: list[LossCall]) -> bool:
        """Return whether predictions were still growing in the last third of the steps."""
        last = calls[-1].step
        thirds: tuple[list[float], ...] = ([], [], [])
        for call in calls:
            thirds[min(2, 3 * call.step // (last + 1))].append(_reached(call) or 0.0)
        _, middle, late = thirds
        return bool(middle and np.median(late) >= self.growing * np.median(middle))

    def _breaks(self, window: Window) -> int | None:
        """Return the number of steps until a growing loss was not finite, if it was."""
        for series in loss_series(window):
            broken = np.flatnonzero(~np.isfinite(series.values_S))
            if not len(broken) or series.total > len(series):
                continue
            before_S = series.values_S[: broken[0]]
            grew = len(before_S) > 1 and before_S.max() >= GREW * abs(before_S[0])
            if grew and broken[0] < self.steps:
                return int(broken[0])
        return None


def _straddle_zero(call: LossCall) -> bool:
    sample = call.targets
    return sample is not None and (sample.least or 0.0) < 0 < (sample.greatest or 0.0)


def _reached(call: LossCall) -> float | None:
    """Return the size of the largest prediction."""
    if call.predicted_least is None or call.predicted_greatest is None:
        return None
    return max(abs(call.predicted_least), abs(call.predicted_greatest))


def _size(call: LossCall) -> float | None:
    """Return the size of the largest target."""
    sample = call.targets
    if sample is None or sample.least is None or sample.greatest is None:
        return None
    return max(abs(sample.least), abs(sample.greatest))
