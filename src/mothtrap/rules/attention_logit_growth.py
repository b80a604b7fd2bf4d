"""ACT206: attention scores grow beyond what softmax can use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.layers import AttentionLook
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._attention import by_operation
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._stretches import last_stretch

LEAST_ROOT = 2.0
"""Square root of the width from which on its absence can matter."""
LEAST_KEYS = 8
LARGE = "large"
SAME = 0.01
"""Relative difference of two scales that are the same but for rounding."""


@dataclass(frozen=True)
class AttentionLogitGrowth(Rule):
    """Attention scores grow beyond what softmax can use.

    What it detects:
        Products of queries and keys, after scaling, that are huge or become so, or that are
        not divided by the square root of the head's width.

    Why it matters:
        Softmax of scores that are 50 apart is one weight of 1 and zeros, without a
        gradient. In large models the growth ends in a loss that diverges, and in half
        precision in NaN.

    Fires:
        Warning when the largest absolute score of an attention is above `huge` in two
        looks running, or above `large` and has grown in each look of the last
        `growing_steps` steps, to `growth_ratio` times what it was. Or when in the
        `first_looks` first looks the largest weight of a query is on average above
        `narrow_weight`, though it would be below `wide_weight` if products were divided by
        the square root of the width; where they are multiplied by it, `multiplied_weight` is
        enough. Whatever the scale, when it is above `narrow_weight` in these looks while the
        largest score is above `large`.

    Stays quiet:
        Scores that are large and stay where they are. Scales of 1 where weights are wide, as
        the initial weights or a normalization make up for it. Attention of which only the
        weights are kept: see attention_collapse.

    What to do:
        - Divide scores by the square root of the head's width: `scale` of
          `scaled_dot_product_attention` does it when it is not given.
        - Normalize queries and keys before their product (QK norm), or cap the scores.
        - Bring what goes into the attention to a standard scale: embeddings, positions.
        - Lower the learning rate or raise weight decay of queries and keys.

    Example:
        x = tokens + torch.arange(length)[:, None]        # positions as plain numbers
        x = tokens + nn.Embedding(length, width)(torch.arange(length))

    References:
        Dehghani et al. 2023, Scaling vision transformers to 22 billion parameters,
        https://arxiv.org/abs/2302.05442
    """

    code = "ACT206"
    needs = (Need(facts=(AttentionLook,)),)
    explains = (
        *UNLEARNED,
        "attention_collapse",
        "exploding_gradient",
        "gradient_spike",
        "labels_unrelated",
        "loss_oscillating",
        "loss_spike",
        "overfit",
        "overtraining",
        "vanishing_gradient",
        "wrong_initial_loss",
    )

    huge: float = threshold(500.0, unit="largest score", source="chosen by hand")
    large: float = threshold(
        50.0, unit="largest score", source="Dehghani et al. 2023: divergence beyond it"
    )
    growing_steps: int = threshold(200, unit="steps", source="chosen by hand")
    growth_ratio: float = threshold(1.5, unit="times the score before", source="chosen by hand")
    narrow_weight: float = threshold(
        0.8,
        unit="mean largest weight",
        source="measured: 0.87 for 128 numbers a head of standard scale, not divided",
    )
    wide_weight: float = threshold(
        0.6, unit="mean largest weight with the usual scale", source="chosen by hand"
    )
    multiplied_weight: float = threshold(0.5, unit="mean largest weight", source="chosen by hand")
    first_looks: int = threshold(
        2, unit="looks", source="chosen by hand: what training does comes later"
    )

    def check(self, window: Window) -> list[Finding]:
        """Look at the scale, then at the largest score of every attention."""
        every = by_operation(window)
        for place, looks in every.items():
            found = self._unscaled(window, place, looks[: self.first_looks])
            if found:
                return [found]
        operations = {
            place: [look for look in looks if look.largest_logit is not None]
            for place, looks in every.items()
        }
        known = {place: looks for place, looks in operations.items() if looks}
        if not known:
            raise NotApplicable("only the weights of attention are kept, not its scores")
        for place, looks in known.items():
            found = self._judge(window, place, looks)
            if found:
                return [found]
        return []

    def _unscaled(self, window: Window, place: str, looks: list[AttentionLook]) -> Finding | None:
        """Judge the scale by what the first weights would be with the usual one."""
        if len(looks) < self.first_looks:
            return None
        first, faults = looks[0], {self._fault(look) for look in looks}
        top, scaled, width = first.top_weight, first.scaled_top_weight, first.width
        if len(faults) != 1 or "" in faults or width is None:
            return None
        [fault] = faults
        if fault == LARGE:
            return self._finding(window, place, looks, " from the first step on", self.large)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=first.step,
            last_step=looks[-1].step,
            count=len(looks),
            layers=(place,),
            message=(
                f"the scores of {place} {fault} sqrt({width}): the largest weight of a query "
                f"is {top:.2g} on average, it would be {scaled:.2g} if they were divided by it"
            ),
            evidence={
                "scale": first.scale,
                "usual_scale": width**-0.5,
                "largest_weight": top,
                "scaled_largest_weight": scaled,
                "largest_score": first.largest_logit,
            },
            fixes=(
                f"Divide the product of queries and keys by sqrt({width}), the square root of the "
                "width of a head.",
                *self.fixes(window)[1:],
            ),
            location=first.location,
        )

    def _fault(self, look: AttentionLook) -> str:
        """Return the fault in the scale of an attention; '' where there is none."""
        if look.scale is None or look.top_weight is None or look.scaled_top_weight is None:
            return ""
        root, top = float(look.width or 1) ** 0.5, look.top_weight
        wide = root >= LEAST_ROOT and look.scaled_top_weight <= self.wide_weight
        if wide and abs(look.scale / root - 1) < SAME and top >= self.multiplied_weight:
            return "are multiplied by"
        if look.keys < LEAST_KEYS or top < self.narrow_weight:
            return ""
        if wide and look.scale * root >= LEAST_ROOT:
            return "are not divided by"
        return LARGE if (look.largest_logit or 0.0) > self.large else ""

    def _judge(self, window: Window, place: str, looks: list[AttentionLook]) -> Finding | None:
        score_L = np.array([look.largest_logit for look in looks], dtype=np.float64)
        step_L = np.array([look.step for look in looks])
        stretch = last_stretch(score_L > self.huge)
        if stretch and stretch[1] - stretch[0] >= 2:
            return self._finding(window, place, looks[stretch[0] :], "", self.huge)
        # From the last look before the stretch of steps on.
        before = np.flatnonzero(step_L <= step_L[-1] - self.growing_steps)
        if not len(before):
            return None
        recent = score_L[before[-1] :]
        grew = bool((np.diff(recent) > 0).all()) and recent[-1] > self.growth_ratio * recent[0]
        if not grew or recent[-1] <= self.large:
            return None
        since = f", {recent[0]:.3g} in step {step_L[before[-1]]}"
        return self._finding(window, place, looks[before[-1] :], since, self.large)

    def _finding(
        self, window: Window, place: str, looks: list[AttentionLook], since: str, limit: float
    ) -> Finding:
        last = looks[-1]
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=looks[0].step,
            last_step=last.step,
            count=len(looks),
            layers=(place,),
            message=(
                f"the largest score of {place} is {last.largest_logit:.3g}{since} (limit {limit:g})"
            ),
            evidence={"value": last.largest_logit, "limit": limit, "keys": last.keys},
            location=last.location,
        )
