"""ACT206: attention scores are so large that softmax saturates."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.layers import AttentionLook
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._attention import by_operation
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._stretches import last_stretch

LEAST_ROOT = 2.0
"""Least square root of the head dimension for which a missing scale matters."""
LEAST_KEYS = 8
LARGE = "large"
INPUTS = "Bring the inputs"
"""Beginning of the fix for inputs of a large scale."""
SAME = 0.01
"""Relative difference up to which two scales are equal, to allow for rounding."""


@frozen
class AttentionLogitGrowth(Rule):
    """Attention scores are so large that softmax saturates.

    What it detects:
        Attention scores (scaled products of queries and keys) that are huge or become huge, or
        that are not divided by the square root of the head dimension.

    Why it matters:
        If scores differ by 50, softmax returns one weight of 1 and zeros elsewhere, and passes no
        gradient. In large models, growing scores end in a diverging loss, and in half precision
        in NaN.

    Fires:
        Warning when the largest absolute score of an attention layer is above `huge` in two
        consecutive observations. Warning when it is above `large` and grew in each observation of
        the last `growing_steps` steps, by a factor of `growth_ratio` in total. Warning when, in
        the first `first_looks` observations, the mean largest weight per query is above
        `narrow_weight` but would be below `wide_weight` with the usual scale, 1 / square root of
        the head dimension. If the scores are multiplied by the root instead, the limit is
        `multiplied_weight`. With any scale, warning when the mean largest weight is above
        `narrow_weight` in these observations while the largest score is above `large`.

    Stays quiet:
        For large scores that do not grow. For a scale of 1 if the attention weights are spread
        out, because the initialization or a normalization compensates for it. For attention
        layers whose weights are recorded, but not their scores (see `attention_collapse`).

    What to do:
        - Divide the scores by the square root of the head dimension.
          `scaled_dot_product_attention` does so if you do not pass `scale`.
        - Normalize queries and keys before their product (QK norm), or cap the scores.
        - Bring the inputs of the attention layer to a standard scale: embeddings, positions. If
          the embedding is multiplied by the square root of its width, it needs small initial
          weights: `nn.init.normal_(embedding.weight, std=width**-0.5)`.
        - Lower the learning rate, or raise the weight decay of the query and key projections.

    Example:
        x = tokens + torch.arange(length)[:, None]        # positions as plain numbers
        x = tokens + nn.Embedding(length, width)(torch.arange(length))

    References:
        Dehghani et al. 2023, Scaling vision transformers to 22 billion parameters,
        https://arxiv.org/abs/2302.05442
    """

    code = "ACT206"
    needs = (Need(facts=(AttentionLook,)),)
    proof = Proof(
        title="Largest attention score",
        fact=AttentionLook,
        field="largest_logit",
        subject="number",
        scale="log",
    )
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
        50.0, unit="largest score", source="Dehghani et al. 2023: training diverges above 50"
    )
    growing_steps: int = threshold(200, unit="steps", source="chosen by hand")
    growth_ratio: float = threshold(1.5, unit="times the earlier score", source="chosen by hand")
    narrow_weight: float = threshold(
        0.8,
        unit="mean largest weight",
        source="measured: 0.87 for unscaled heads of dimension 128 with unit-variance inputs",
    )
    wide_weight: float = threshold(
        0.6, unit="mean largest weight with the usual scale", source="chosen by hand"
    )
    multiplied_weight: float = threshold(0.5, unit="mean largest weight", source="chosen by hand")
    first_looks: int = threshold(
        2, unit="observations", source="chosen by hand: training changes the scores later"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the scale, then the largest score of every attention layer."""
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
            raise NotApplicable("attention weights were recorded, but not attention scores")
        for place, looks in known.items():
            found = self._judge(window, place, looks)
            if found:
                return [found]
        return []

    def _unscaled(self, window: Window, place: str, looks: list[AttentionLook]) -> Finding | None:
        """Compare the first weights with the weights under the usual scale."""
        if len(looks) < self.first_looks:
            return None
        first, faults = looks[0], {self._fault(look) for look in looks}
        top, scaled, width = first.top_weight, first.scaled_top_weight, first.width
        if len(faults) != 1 or "" in faults or width is None:
            return None
        [fault] = faults
        if fault == LARGE:
            return self._finding(window, place, looks, " from the first step", self.large)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=first.step,
            last_step=looks[-1].step,
            count=len(looks),
            layers=(place,),
            message=(
                f"the scores of {place} {fault} sqrt({width}): the largest weight of a query "
                f"is {top:.2g} on average, and would be {scaled:.2g} with the division"
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
                "head dimension.",
                *self.fixes(window)[1:],
            ),
            location=first.location,
        )

    def _fault(self, look: AttentionLook) -> str:
        """Return the fault in the scale of an attention layer; '' without a fault."""
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
        since = f", up from {recent[0]:.3g} at step {step_L[before[-1]]}"
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
                f"the largest attention score of {place} is {last.largest_logit:.3g}{since} "
                f"(limit {limit:g})"
            ),
            evidence={"value": last.largest_logit, "limit": limit, "keys": last.keys},
            fixes=_fixes(self.fixes(window), last),
            location=last.location,
        )


def _fixes(every: tuple[str, ...], look: AttentionLook) -> tuple[str, ...]:
    """Return the fixes; scores that have the usual scale are large because of their inputs."""
    if look.scale is None or look.width is None or abs(look.scale * look.width**0.5 - 1) >= SAME:
        return every
    return tuple(fix for fix in every if fix.startswith(INPUTS)) + tuple(
        fix for fix in every[1:] if not fix.startswith(INPUTS)
    )
