"""GRD101: the gradient grows without bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import StatesKept
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Series, Window
from mothtrap.rules._batch_rows import steps_of_many_rows
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED
from mothtrap.rules._explosions import (
    EBB_STEPS,
    HISTORY_STEPS,
    SETTLING_STEPS,
    Explosion,
    growing_layers,
    growth,
    has_ebbed,
    level,
    losses_around,
)
from mothtrap.rules._gradient_norms import clipping_limit, gradient_norms
from mothtrap.rules._layers import (
    LayerGradients,
    front_to_back,
    layer_gradients,
    rank_correlation,
)
from mothtrap.rules._losses import NEGLIGIBLE, has_players

START_STEPS, START_RISE, START_BREAK = 20, 2.0, 10.0
"""Number of steps after the first, and rise of the loss in them that makes a warning and an
error; chosen by hand."""

START_NORMS = 5
"""Number of first gradient norms that a later one must exceed if the loss does not rise; chosen by
hand: the gradient of a loss with a margin is 0 for many batches."""

LIKE_START = 2.0
"""Ratio to the first gradient norms below which a norm is typical of untrained weights; chosen by
hand."""

HEALTHY_START = 100.0
"""Largest initial gradient norm of healthy networks; measured like `start_ratio`."""

DEEP_LAYERS = 4
"""Fewest layers for which growth of the gradient with depth is checked; chosen by hand."""

WILD = 100.0
"""Ratio to the first loss above which a loss does not recover; chosen by hand."""

SMALL = 0.01
"""Norm below which a gradient is never called exploding; chosen by hand."""


@frozen
class ExplodingGradient(Rule):
    """The gradient grows without bound.

    What it detects:
        The gradient norm of an optimizer rises far above its earlier values and stays there,
        or multiplies from step to step, while the loss does not fall.

    Why it matters:
        The update is proportional to the gradient. A huge update overshoots, the next gradient
        is even larger, and the weights become NaN or end up in a region from which training
        does not recover.

    Fires:
        Error when the norm is at least `ratio_limit` times its earlier median in
        `persisting_steps` consecutive steps and the loss rises too. Error when the norm grows
        by a factor of `growth_factor` or more in each of `growth_steps` consecutive steps, by
        `growth_total` in total, and the loss rises too. Error when the norm before the first
        step is `start_ratio` times the loss and the loss then rises to 10 times its value.
        Error when the initial norm is `start_huge` times the norm in healthy networks, or grows by
        `growth_total` in the first step, and the loss becomes NaN or infinite soon after.
        Warning when the loss is unknown or does not change, or when several losses compete
        (GAN). Warning when, in a network of at least four layers, the first layers get
        `depth_ratio` times the gradient of the last layers from the start.

    Stays quiet:
        For a spike of a few steps; with very small batches, for a spike of steps that
        have fewer than 16 rows in total. For the usual rise of the norm in early training. For
        a gradient that was near 0 before or is still below 0.01. While the loss keeps falling. For
        a gradient that is no larger than in the first steps, if the loss does not rise, or is no
        higher than in the first step. For one up to twice as large as in the first steps, if the
        loss before was near 0 or is unknown: another training run may have begun.
        For steps that loss scaling skips. For growth with depth, if a layer gets a gradient of 0.
        GAN players get at most a warning, and recurrent layers that keep their state from batch to
        batch at most a note, because each pass begins with new states.

    What to do:
        - PyTorch: Clip the gradient norm before the step: `clip_grad_norm_(parameters, 1.0)`.
        - Keras: Clip the gradient norm: give the optimizer `global_clipnorm=1.0`.
        - JAX: Clip the gradient norm before the update:
          `optax.chain(optax.clip_by_global_norm(1.0), optimizer)`.
        - Lower the learning rate by a factor of 10, or warm it up.
        - Check the initial scale of the weights. In recurrent networks, use gated cells or
          orthogonal initialization.
        - Average the loss over the batch instead of summing it.

    Example:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    References:
        Pascanu, Mikolov, Bengio 2013, On the difficulty of training recurrent neural
        networks, https://arxiv.org/abs/1211.5063
    """

    code = "GRD101"
    needs = (
        *any_of(Need(kinds=("gradient",), statistics=("l2",)), Need(scalars=("gradient_norm",))),
        Need(scalars=("loss", "clip_limit"), optional=True),
        Need(facts=(ClippedLate,), each_step=True, optional=True),
        Need(facts=(LossCall, StatesKept), optional=True),
    )
    proof = Proof(
        title="Gradient norm",
        scalars=("gradient_norm",),
        statistic="gradient.l2",
        joint=True,
        reference=("reference", "limit"),
        scale="log",
    )
    explains = (
        *NOT_FINITE,
        *UNLEARNED,
        "updates_all_skipped",
        "clipping_every_step",
        "dead_units",
        "gradient_spike",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "overtraining",
        "weight_growth",
    )

    ratio_limit: float = threshold(100.0, unit="times the earlier median", source="chosen by hand")
    persisting_steps: int = threshold(
        3, unit="consecutive steps", source="chosen by hand: a spike is over sooner"
    )
    growth_factor: float = threshold(2.0, unit="times the previous step", source="chosen by hand")
    growth_steps: int = threshold(2, unit="consecutive steps", source="chosen by hand")
    growth_total: float = threshold(1e3, unit="times in total", source="chosen by hand")
    start_ratio: float = threshold(
        1e4, unit="times the loss", source="measured: healthy networks start at 0.1 to 100"
    )
    start_huge: float = threshold(
        1e6,
        unit="times 100 (the largest initial norm of healthy networks)",
        source="chosen by hand: above it, no learning rate is small enough",
    )
    depth_ratio: float = threshold(
        1e3,
        unit="times the gradient of the last layers",
        source="measured: networks of 4 to 20 layers that learn stay below 10",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the gradient norm of every optimizer."""
        norms = gradient_norms(window)
        if not norms:
            raise NotEnoughData("no gradient norm was recorded")
        short = max(len(norm_S) for _, _, norm_S in norms) < 3
        found = [
            (not short and self._judge(window, *norm)) or self._at_start(window, *norm)
            for norm in norms
            if len(norm[2])
        ]
        if short and not any(found):
            raise NotEnoughData("fewer than 3 steps have a finite gradient")
        found += [self._through_depth(window, group) for group in layer_gradients(window)]
        judged = [finding for finding in found if finding]
        return sorted(judged, key=lambda f: (f.severity.rank, f.step))[:1]

    def _judge(
        self, window: Window, optimizer: str, steps_S: Ints, norm_S: Floats
    ) -> Finding | None:
        least = steps_of_many_rows(window)

        def is_over(last: int) -> bool:
            return has_ebbed(norm_S, last) and _has_recovered(window, optimizer, int(steps_S[last]))

        explosion = self._search(norm_S, max(self.persisting_steps, least), is_over)
        if explosion is None:
            return None
        if norm_S[explosion.onset : explosion.last + 1].max() < SMALL:
            return None
        since = int(steps_S[explosion.onset])
        before, after = losses_around(window, optimizer, since, int(steps_S[explosion.last]))
        recent = len(norm_S) - 1 - explosion.last < SETTLING_STEPS
        if not explosion.lasting and recent and _may_recover(window, optimizer, after):
            return None
        grown = explosion.last - explosion.onset + 1
        if grown < least and after is not None and np.isfinite(after):
            return None  # caused by a few rows, and the loss is still finite
        peak = norm_S[explosion.onset : explosion.last + 1].max()
        at_start = norm_S[:START_NORMS].max() if steps_S[0] == 0 else 0.0
        as_at_start = peak <= at_start
        if before is None or after is None:
            if peak <= LIKE_START * at_start:
                return None  # such as another training run with new weights
            severity = Severity.WARNING
        elif as_at_start and after <= _first_loss(window, optimizer):
            return None  # what was learned does not fit the latest data
        elif after >= explosion.loss_ratio * before or not np.isfinite(after):
            severity = Severity.ERROR
        elif after >= 0.9 * before and explosion.lasting:
            severity = Severity.WARNING
            if as_at_start:
                return None  # it was small in between
        else:
            return None
        if has_players(window):
            severity = Severity.WARNING
        if any(True for _ in window.seen(StatesKept)):
            severity = Severity.INFO  # each pass begins with new states
        return self._finding(window, optimizer, steps_S, norm_S, explosion, severity)

    def _search(
        self, norm_S: Floats, persisting: int, is_over: Callable[[int], bool]
    ) -> Explosion | None:
        return level(norm_S, persisting, self.ratio_limit) or growth(
            norm_S,
            factor=self.growth_factor,
            total=self.growth_total,
            steps=self.growth_steps,
            is_over=is_over,
        )

    def _at_start(
        self, window: Window, optimizer: str, steps_S: Ints, norm_S: Floats
    ) -> Finding | None:
        """Find an initial gradient that is out of proportion to the loss."""
        for series in window.scalars("loss"):
            other = optimizer and series.optimizers and optimizer not in series.optimizers
            if other or series.total > len(series) or not len(series) or has_players(window):
                continue
            first, later_S = series.values_S[0], series.values_S[1 : START_STEPS + 1]
            if steps_S[0] != series.steps_S[0] or not len(later_S) or not first > 0:
                continue
            broke = not bool(np.isfinite(later_S).all())
            if broke and norm_S[0] >= self.start_huge * HEALTHY_START:
                huge = Explosion(
                    onset=0, last=0, reference=HEALTHY_START, loss_ratio=0.0, lasting=False
                )
                against = "the largest initial norm of healthy networks"
                return self._finding(
                    window, optimizer, steps_S, norm_S, huge, Severity.ERROR, against=against
                )
            grew = len(norm_S) == 2 and norm_S[1] >= self.growth_total * norm_S[0]
            if broke and grew and later_S[0] >= START_BREAK * first:
                jump = Explosion(
                    onset=1, last=1, reference=float(norm_S[0]), loss_ratio=0.0, lasting=False
                )
                return self._finding(
                    window,
                    optimizer,
                    steps_S,
                    norm_S,
                    jump,
                    Severity.ERROR,
                    against="the norm of the previous step, and the next norm is not finite",
                )
            if first < NEGLIGIBLE or (series.values_S < 0).any():
                continue  # a loss that becomes negative, like a policy loss, measures no progress
            ratio = float(norm_S[0] / first)
            rise = np.max(np.where(np.isfinite(later_S), later_S, np.inf)) / first
            if ratio >= self.start_ratio and rise >= START_RISE:
                start = Explosion(
                    onset=0, last=0, reference=float(first), loss_ratio=0.0, lasting=False
                )
                severity = Severity.ERROR if rise >= START_BREAK else Severity.WARNING
                return self._finding(
                    window, optimizer, steps_S, norm_S, start, severity, against="the loss"
                )
        return None

    def _through_depth(self, window: Window, group: LayerGradients) -> Finding | None:
        """Find a gradient that grows from layer to layer in the backward pass, from the start."""
        count = len(group.steps_S)
        begins = count > 0 and group.steps_S[0] < START_STEPS
        if len(group.modules) < DEEP_LAYERS or not begins or count < HISTORY_STEPS:
            return None
        level_L = np.median(group.rms_SL[:HISTORY_STEPS], axis=0)
        if not level_L.min() > 0:
            return None  # a layer without a gradient is another fault
        ratio = float(np.median(front_to_back(group.rms_SL[:HISTORY_STEPS])))
        if not ratio >= self.depth_ratio or rank_correlation(level_L) > -0.7:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=int(group.steps_S[0]),
            last_step=int(group.steps_S[HISTORY_STEPS - 1]),
            count=HISTORY_STEPS,
            layers=group.modules[: max(1, len(group.modules) // 4)],
            message=(
                f"the first layers get {ratio:.3g} times the gradient of the last layers (limit "
                f"{self.depth_ratio:g}): it grows as it flows back through {len(level_L)} layers"
            ),
            evidence={"ratio": ratio, "limit": self.depth_ratio, "layers": len(level_L)},
            location=group.tensors[0].location,
        )

    def _finding(
        self,
        window: Window,
        optimizer: str,
        steps_S: Ints,
        norm_S: Floats,
        explosion: Explosion,
        severity: Severity,
        against: str = "",
    ) -> Finding:
        after_S = norm_S[explosion.onset :]
        peak = int(np.argmax(after_S[: explosion.last - explosion.onset + 1]))
        value, seen = float(after_S[peak]), int(steps_S[explosion.onset + peak])
        ratio = value / explosion.reference
        held_S = after_S >= explosion.reference * min(self.ratio_limit, ratio)
        since, until = int(steps_S[explosion.onset]), int(steps_S[explosion.last])
        layers = growing_layers(window, since, until)
        if against:
            against = f"{ratio:.3g}x {against}" + ", before the first step" * (since == 0)
        elif explosion.lasting:
            against = f"{ratio:.3g}x its earlier median (limit {self.ratio_limit:g}x)"
        else:
            against = f"{ratio:.3g}x within {explosion.last - explosion.onset + 1} steps"
        fixes = self.fixes(window)
        clipped = clipping_limit(window) is not None
        return self.finding(
            window,
            severity=severity,
            fixes=(*fixes[1:], fixes[0]) if clipped else None,
            step=since,
            last_step=int(steps_S[explosion.onset + np.flatnonzero(held_S)[-1]]),
            count=int(held_S.sum()),
            layers=tuple(layer.name for layer in layers),
            message=f"gradient norm {value:.3g} at step {seen} is {against}",
            evidence={
                "value": value,
                "reference": explosion.reference,
                "ratio": ratio,
                "limit": self.ratio_limit if explosion.lasting else self.growth_total,
                "optimizer": optimizer,
            },
            location=next((layer.location for layer in layers if layer.location), None),
        )


def _may_recover(window: Window, optimizer: str, after: float | None) -> bool:
    """Return whether the loss after a growth is still so low that it may be a spike."""
    return after is not None and after <= WILD * _first_loss(window, optimizer)


def _has_recovered(window: Window, optimizer: str, step: int) -> bool:
    """Return whether the loss has fallen below its first value again soon after a step."""
    for series in _whole_losses(window, optimizer):
        after_S = series.values_S[(series.steps_S > step) & (series.steps_S <= step + EBB_STEPS)]
        if len(after_S):
            return bool(np.median(after_S[-SETTLING_STEPS:]) <= series.values_S[0])
    return False


def _first_loss(window: Window, optimizer: str) -> float:
    """Return the loss of the first step; minus infinity if it is unknown."""
    return next((float(one.values_S[0]) for one in _whole_losses(window, optimizer)), -np.inf)


def _whole_losses(window: Window, optimizer: str) -> list[Series]:
    """Return the losses of an optimizer that are known from the first step on."""
    return [
        series
        for series in window.scalars("loss")
        if not (optimizer and series.optimizers and optimizer not in series.optimizers)
        and len(series)
        and series.total == len(series)
    ]
