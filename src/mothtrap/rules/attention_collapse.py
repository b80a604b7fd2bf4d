"""ACT205: attention heads attend to a single position, or equally to all."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import AttentionLook
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._attention import by_operation
from mothtrap.rules._stretches import last_stretch

FIRST_LOOKS = 3
"""First observations that define the initial state of a head."""


@frozen
class AttentionCollapse(Rule):
    """Attention heads attend to a single position, or equally to all.

    What it detects:
        Heads whose attention weights, first spread over many positions, collapse to one position
        for nearly every query. Also attention that stays exactly uniform.

    Why it matters:
        A weight of 1 has a gradient of 0: the head can no longer move its attention, and training
        becomes unstable or stops. Uniform attention is a plain average that has learned nothing.

    Fires:
        The relative entropy is the entropy of the attention weights divided by the entropy of
        uniform weights. Warning when, in `persisting_looks` consecutive observations, it is below
        `narrow` for at least `heads_share` of the heads after it was above `wide` at the start,
        and the loss is still above `loss_share` of its first value. Warning when it stays above
        `even` in all heads for `even_steps` steps.

    Stays quiet:
        For heads that are narrow from the start, or become narrow while the loss falls (in tasks
        like copying, one position is right). For single narrow heads (previous token, separator).
        For queries with fewer than 8 positions. For attention inside checkpointed segments, which
        is not observed.

    What to do:
        - Lower the learning rate, or warm it up for longer.
        - Normalize queries and keys before their product (QK norm), or cap the scores.
        - Divide the scores by the square root of the head dimension.
        - Check the sign and size of any penalty on the attention.

    Example:
        scores = q @ k.transpose(-1, -2)                      # too large: one weight is 1
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5

    References:
        Zhai et al. 2023, Stabilizing Transformer training by preventing attention entropy
        collapse, https://arxiv.org/abs/2303.06296
    """

    code = "ACT205"
    needs = (
        Need(facts=(AttentionLook,)),
        Need(scalars=("loss",), optional=True),
    )
    proof = Proof(
        title="Relative entropy of the attention weights (largest head)",
        fact=AttentionLook,
        field="entropies",
        subject="number",
        reference=("limit",),
    )
    explains = ("loss_not_decreasing",)

    narrow: float = threshold(0.05, unit="relative entropy", source="chosen by hand")
    wide: float = threshold(0.3, unit="relative entropy", source="chosen by hand")
    heads_share: float = threshold(0.5, unit="share of the heads", source="chosen by hand")
    persisting_looks: int = threshold(3, unit="consecutive observations", source="chosen by hand")
    loss_share: float = threshold(0.5, unit="of the first loss", source="chosen by hand")
    even: float = threshold(
        0.9999, unit="relative entropy", source="chosen by hand: healthy heads soon differ"
    )
    even_steps: int = threshold(500, unit="steps", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every attention layer."""
        operations = {
            place: [look for look in looks if look.entropies]
            for place, looks in by_operation(window).items()
        }
        operations = {place: looks for place, looks in operations.items() if looks}
        if not operations:
            raise NotApplicable("no attention query has 8 or more positions to attend to")
        if max(len(looks) for looks in operations.values()) < FIRST_LOOKS + self.persisting_looks:
            raise NotEnoughData(f"fewer than {FIRST_LOOKS + self.persisting_looks} observations")
        for place, looks in operations.items():
            found = self._narrowed(window, place, looks)
            if found:
                return [found]
        found = self._even(window, operations)
        return [found] if found else []

    def _narrowed(self, window: Window, place: str, looks: list[AttentionLook]) -> Finding | None:
        heads = looks[0].heads
        same = [look for look in looks if look.heads == heads]
        if len(same) < FIRST_LOOKS + self.persisting_looks:
            return None
        entropy_LH = np.array([look.entropies for look in same])
        was_wide_H = np.median(entropy_LH[:FIRST_LOOKS], axis=0) >= self.wide
        share_L = ((entropy_LH <= self.narrow) & was_wide_H).mean(axis=1)
        stretch = last_stretch(share_L >= self.heads_share)
        if not stretch or stretch[1] - stretch[0] < self.persisting_looks:
            return None
        if self._learns(window):
            return None
        narrow = round(share_L[-1] * heads)
        return self._finding(
            window,
            (place,),
            same[stretch[0] :],
            f"{narrow} of {heads} heads of {place} attend to only one of {same[-1].keys} "
            f"positions: their relative entropy fell from {np.median(entropy_LH[0]):.2g} to "
            f"{np.median(entropy_LH[-1]):.2g} (limit {self.narrow:g})",
            float(np.median(entropy_LH[-1])),
            self.narrow,
        )

    def _learns(self, window: Window) -> bool:
        """Return whether a loss has fallen far since the start."""
        return any(
            series.first > 0 and np.median(series.values_S[-20:]) < self.loss_share * series.first
            for series in window.scalars("loss")
            if len(series)
        )

    def _even(self, window: Window, operations: dict[str, list[AttentionLook]]) -> Finding | None:
        every = [look for looks in operations.values() for look in looks]
        if max(look.step for look in every) - min(look.step for look in every) < self.even_steps:
            return None
        lowest = min(min(look.entropies) for look in every)
        if lowest < self.even:
            return None
        looks = next(iter(operations.values()))
        return self._finding(
            window,
            tuple(operations),
            looks,
            f"the weights of every attention layer have been uniform for {looks[-1].step} steps "
            f"(limit {self.even_steps})",
            lowest,
            self.even,
        )

    def _finding(
        self,
        window: Window,
        places: tuple[str, ...],
        looks: list[AttentionLook],
        message: str,
        value: float,
        limit: float,
    ) -> Finding:
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=looks[0].step,
            last_step=looks[-1].step,
            count=len(looks),
            layers=places,
            message=message,
            evidence={"value": value, "limit": limit},
            location=looks[-1].location,
        )
