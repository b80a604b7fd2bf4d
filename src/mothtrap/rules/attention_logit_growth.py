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
from mothtrap.rules._stretches import last_stretch


@dataclass(frozen=True)
class AttentionLogitGrowth(Rule):
    """Attention scores grow beyond what softmax can use.

    What it detects:
        Products of queries and keys, after scaling, that are huge or become so.

    Why it matters:
        Softmax of scores that are 50 apart is one weight of 1 and zeros, without a
        gradient. In large models the growth ends in a loss that diverges, and in half
        precision in NaN.

    Fires:
        Warning when the largest absolute score of an attention is above `huge` in two
        looks running, or above `large` and has grown in each look of the last
        `growing_steps` steps, to `growth_ratio` times what it was.

    Stays quiet:
        Scores that are large and stay where they are. Attention that is written out,
        where only the weights are kept: see attention_collapse.

    What to do:
        - Divide scores by the square root of the head's width: `scale` of
          `scaled_dot_product_attention` does it when it is not given.
        - Normalise queries and keys before their product (QK norm), or cap the scores.
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
    explains = ("attention_collapse", "loss_not_decreasing")

    huge: float = threshold(500.0, unit="largest score", source="chosen by hand")
    large: float = threshold(
        50.0, unit="largest score", source="Dehghani et al. 2023: divergence beyond it"
    )
    growing_steps: int = threshold(200, unit="steps", source="chosen by hand")
    growth_ratio: float = threshold(1.5, unit="times the score before", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Look at the largest score of every attention."""
        operations = {
            place: [look for look in looks if look.largest_logit is not None]
            for place, looks in by_operation(window).items()
        }
        known = {place: looks for place, looks in operations.items() if looks}
        if not known:
            raise NotApplicable("only the weights of attention are kept, not its scores")
        for place, looks in known.items():
            found = self._judge(window, place, looks)
            if found:
                return [found]
        return []

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
