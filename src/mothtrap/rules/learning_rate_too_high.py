"""OPT602: updates are so large that the model forgets what it has learned."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED
from mothtrap.rules._loss_courses import JUMP_STEPS, SETTLED_STEPS, Course, course_of
from mothtrap.rules._losses import has_players, learning_rates, loss_series
from mothtrap.rules._weights import (
    WEIGHTS,
    Ratios,
    optimizer_facts,
    optimizer_location,
    update_ratios,
)

SLOW_RATE = 0.2
"""Effective rate of plain gradient descent, lr / (1 - momentum), below which a large step is
attributed to the gradient; chosen by hand: 0.1 to 1 is usual."""
GOOD_RATIO = 0.01
"""Update ratio that the suggested rate aims at; chosen by hand: healthy programs start at 0.002
to 0.05."""


@frozen
class LearningRateTooHigh(Rule):
    """Updates are so large that the model forgets what it has learned.

    What it detects:
        Single steps that change weights by a large share of their norm, while the loss jumps,
        becomes NaN, or returns to its initial value and stays there.

    Why it matters:
        The gradient is only valid near the weights at which it was computed. A step as large as
        the weights ends at an arbitrary point: the loss rises, ReLU units die, and training
        often does not recover.

    Fires:
        The update ratio is the change of a weight in one step divided by its norm. The initial
        loss is the loss before the first step at this rate. Error when the loss becomes NaN,
        infinite, or `runaway_ratio` times its initial value after steps with an update ratio
        above `ratio_limit`. Error when the loss jumps to `jump_ratio` times its initial value
        and is still above `lost_share` of it `settled_after` steps later. Warning when the loss
        stays above `lost_share` without a jump and the update ratio is still above
        `ratio_limit`. Warning when first steps with an update ratio above `erasing_ratio` raise
        the loss to `erased_ratio` times its initial value and it is not yet below
        `learned_share` of it, or to `jump_ratio` times and it is not yet below `slowed_share`.
        Warning when first steps with an update ratio above `overwriting_ratio` raise a loss to
        `raised_ratio` times its initial value and it is not below `learned_share` of it
        `settled_after` steps later.

    Stays quiet:
        For large first steps of Adam after which the loss falls, warm-up, noisy losses,
        competing losses (GAN, actor and critic), negative losses, and optimizers with
        `maximize=True`. For an explosion at a usual rate, which GRD101 reports. The finding ends
        when the loss falls after all.

    What to do:
        - Lower the learning rate, first by a factor of 10: 1e-3 is usual for Adam, 0.01 to 0.1
          for SGD.
        - Warm the learning rate up over the first hundred steps.
        - PyTorch: If single batches raise the loss, clip the gradient norm:
          `clip_grad_norm_(parameters, 1.0)`.
        - Keras: If single batches raise the loss, clip the gradient norm: give the optimizer
          `global_clipnorm=1.0`.
        - JAX: If single batches raise the loss, clip the gradient norm:
          `optax.clip_by_global_norm(1.0)`.

    Example:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.5)     # weights are about 0.1
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    References:
        Bengio 2012, Practical recommendations for gradient-based training of deep
        architectures, https://arxiv.org/abs/1206.5533
    """

    code = "OPT602"
    needs = (
        *WEIGHTS,
        Need(scalars=("loss", "lr")),
        Need(facts=(OptimizerFacts,), optional=True),
    )
    proof = Proof(
        title="Change of the weights by a step, relative to their norm",
        statistic="weight.update_ratio",
        reference=("limit",),
        scale="log",
    )
    passes = True
    explains = (
        *NOT_FINITE,
        *UNLEARNED,
        "activation_growth",
        "attention_collapse",
        "attention_logit_growth",
        "clipping_every_step",
        "constant_output",
        "dead_units",
        "epsilon_too_large",
        "exploding_gradient",
        "gradient_spike",
        "learning_rate_too_low",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "overfit",
        "overflow_risk",
        "overtraining",
        "saturated_activation",
        "update_ratio",
        "vanishing_gradient",
        "weight_growth",
    )

    ratio_limit: float = threshold(
        0.1,
        unit="change of a weight in one step / its norm, median over the weights",
        source="measured on 6 small networks x 3 optimizers x 6 rates: healthy runs stay below, "
        "except in the first few steps of Adam",
    )
    runaway_ratio: float = threshold(20.0, unit="times the initial loss", source="chosen by hand")
    jump_ratio: float = threshold(
        1.5,
        unit="times the initial loss, as medians of 3",
        source="measured like `ratio_limit`",
    )
    lost_share: float = threshold(
        0.8, unit="of the initial loss", source="measured like `ratio_limit`"
    )
    settled_after: int = threshold(50, unit="steps", source="chosen by hand")
    erasing_ratio: float = threshold(
        0.5, unit="update ratio", source="chosen by hand: half of a weight is overwritten"
    )
    overwriting_ratio: float = threshold(
        1.0,
        unit="update ratio",
        source="chosen by hand: nothing is left of the weight; measured: 0.12 in a healthy "
        "recurrent network, and 3.6 with 30 times its learning rate",
    )
    raised_ratio: float = threshold(1.1, unit="times the initial loss", source="chosen by hand")
    erased_ratio: float = threshold(2.0, unit="times the initial loss", source="chosen by hand")
    learned_share: float = threshold(0.1, unit="of the initial loss", source="chosen by hand")
    slowed_share: float = threshold(0.5, unit="of the initial loss", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every loss together with the updates of its optimizers."""
        every = loss_series(window)
        if has_players(window):
            raise NotApplicable("different optimizers minimize different losses in turn")
        if any(facts.maximizes for facts in optimizer_facts(window).values()):
            raise NotApplicable("an optimizer maximizes its loss")
        ratios = update_ratios(window)
        if ratios is None:
            raise NotEnoughData("no weight update was recorded")
        found = [finding for s in every if (finding := self._judge(window, s, ratios))]
        return sorted(found, key=lambda f: (f.severity.rank, f.step))[:1]

    def _judge(self, window: Window, series: Series, ratios: Ratios) -> Finding | None:
        finite = series.values_S[np.isfinite(series.values_S)]
        if len(series) < 3 or not len(finite):
            raise NotEnoughData("fewer than 3 finite losses were recorded")
        if finite.min() < 0:
            raise NotApplicable("the loss is sometimes negative, so ratios are meaningless")
        if series.total > len(series):
            if np.median(series.values_S[-SETTLED_STEPS:]) < self.lost_share * series.first:
                return None
            raise NotEnoughData("the first losses are no longer in the window")
        rated_S, rate_S = learning_rates(window, series)
        if not len(rate_S) or rate_S.max() <= 0:
            raise NotEnoughData("no learning rate above 0 was recorded")
        course = course_of(series, rated_S, rate_S)
        trouble = self._trouble(course, ratios)
        if trouble is None or self._is_gradients_fault(window, series, rate_S):
            return None
        return self._finding(window, series, course, ratios, trouble)

    def _trouble(self, course: Course, ratios: Ratios) -> _Trouble | None:
        if course.start <= 0:
            return None  # multiples of 0 are meaningless
        return self._broke(course, ratios) or self._lost(course, ratios)

    def _broke(self, course: Course, ratios: Ratios) -> _Trouble | None:
        """Find a loss that rose for good after steps that were too large."""
        loss_S = np.where(np.isfinite(course.loss_S), course.loss_S, np.inf)
        last = loss_S[-3:].min()
        if last < self.runaway_ratio * course.start:
            return None
        usual = np.flatnonzero(loss_S <= np.maximum(1.5 * course.level_S, course.start))
        risen = int(usual[-1]) + 1 if len(usual) else 0
        if not 0 < risen < len(loss_S):
            return None
        # Only steps that ended before the loss rose can be the cause.
        latest = course.sampled(ratios, course.begin, int(course.steps_S[risen]) - 1)[-3:]
        if not np.isfinite(loss_S[risen]):
            # A loss can become NaN for other reasons: require a sample right before it.
            latest = latest[latest[:, 0] >= course.steps_S[risen] - 3]
        high = latest[latest[:, 1] >= self.ratio_limit]
        if not len(high):
            return None
        return _Trouble(
            severity=Severity.ERROR,
            sampled=int(high[-1, 0]),
            ratio=float(high[-1, 1]),
            what="the loss then rose and did not recover",
            count=len(loss_S) - risen,
        )

    def _lost(self, course: Course, ratios: Ratios) -> _Trouble | None:
        """Find a finite loss that is no better than at the start, or that jumped far up."""
        early_R2 = course.sampled(ratios, course.begin, course.begin + JUMP_STEPS)
        if not len(early_R2):
            return None
        high = early_R2[int(np.argmax(early_R2[:, 1]))]
        # The first steps of Adam are larger than later steps, unless Adam has run before.
        settled = course.begin + (0 if course.place else 4)
        later_R2 = course.sampled(ratios, settled, course.begin + 4 * JUMP_STEPS)
        # A single high loss or a single large step can be a bad batch.
        needed = 1 if course.highest() >= self.erased_ratio else 2
        keeps = bool((later_R2[:, 1] >= self.ratio_limit).sum() >= needed)
        strong = high[1] >= self.erasing_ratio or bool((later_R2[:, 1] >= self.ratio_limit).any())
        jump, level, since = course.jump(), course.level(), course.after()
        if not strong or not np.isfinite(jump):
            return None
        severity = None
        if since >= self.settled_after and level >= self.lost_share:
            if jump >= self.jump_ratio:
                severity = Severity.ERROR
            elif keeps and since >= 2 * self.settled_after:
                severity = Severity.WARNING
        learned = self.learned_share if jump >= self.erased_ratio else self.slowed_share
        thrown = high[1] >= self.erasing_ratio and jump >= self.jump_ratio
        overwritten = high[1] >= self.overwriting_ratio and course.highest() >= self.raised_ratio
        overwritten = overwritten and since >= self.settled_after and level >= self.learned_share
        if severity is None and (overwritten or (thrown and level >= learned)):
            severity = Severity.WARNING
        if severity is None:
            return None
        seen = len(course.loss_S) - course.place - 1
        what = f"the loss is {level:.2g} times its initial value after {seen} steps"
        if jump > 1.2:
            what = f"the loss rose to {jump:.3g} times its initial value"
            what += (
                f"; {since} step{'s' * (since > 1)} later it is {level:.2g} times that value"
                if since
                else ""
            )
        return _Trouble(
            severity=severity,
            sampled=int(high[0]),
            ratio=float(high[1]),
            what=what,
            count=since,
        )

    def _is_gradients_fault(self, window: Window, series: Series, rate_S: Floats) -> bool:
        """Return whether the rate is usual for plain gradient descent."""
        known = [f for n, f in optimizer_facts(window).items() if n in series.optimizers]
        if not known or any(facts.second_moments for facts in known):
            return False
        momentum = min(0.99, max(facts.momentum for facts in known))
        return float(rate_S.max()) / (1 - momentum) < SLOW_RATE

    def _finding(
        self,
        window: Window,
        series: Series,
        course: Course,
        ratios: Ratios,
        trouble: _Trouble,
    ) -> Finding:
        better = _rounded(course.rate * min(0.1, GOOD_RATIO / trouble.ratio))
        optimizer = series.optimizers[0] if series.optimizers else ""
        evidence: dict[str, EvidenceValue] = {
            "value": trouble.ratio,
            "limit": self.ratio_limit,
            "learning_rate": course.rate,
            "start": course.start,
            "optimizer": optimizer,
            "series": series.of,
        }
        fixes = self.fixes(window)
        return self.finding(
            window,
            severity=trouble.severity,
            step=course.begin,
            last_step=int(course.steps_S[-1]),
            count=trouble.count,
            layers=ratios.fastest(trouble.sampled),
            message=(
                f"with a learning rate of {course.rate:.3g}, step {trouble.sampled} changed the "
                f"weights by {100 * trouble.ratio:.3g} %; {trouble.what}"
            ),
            evidence=evidence,
            fixes=(f"Lower the learning rate from {course.rate:.3g} to {better:g}.", *fixes[1:]),
            location=optimizer_location(window, optimizer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """Effects of large steps; `sampled` is the step at which `ratio` was measured."""

    severity: Severity
    sampled: int
    ratio: float
    what: str
    count: int


def _rounded(rate: float) -> float:
    """Round down to one digit: 1, 3 or 5."""
    power = 10.0 ** math.floor(math.log10(rate))
    return power * max(digit for digit in (1, 3, 5) if digit * power <= rate * (1 + 1e-9))
