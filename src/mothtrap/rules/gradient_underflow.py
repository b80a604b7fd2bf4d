"""NUM006: gradients are too small for the type that holds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.modules import HalfPrecision
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

LAYERS_NAMED = 10
"""Layers that a finding names, at most."""


@dataclass(frozen=True)
class GradientUnderflow(Rule):
    """Gradients are too small for the type that holds them.

    What it detects:
        Gradients computed in float16, most of whose values lie below the smallest normal
        number of the type, 6.1e-5: they have lost digits there, and below 6e-8 they are 0.

    Why it matters:
        Small gradients are not noise: added up they are most of what is learned. What
        became 0 cannot be brought back by a larger learning rate.

    Fires:
        Warning when in the last `looks` sampled steps more than `small_share` of the values
        that are not zero were that small, in the worst tensors.

    Stays quiet:
        bfloat16, whose range is that of float32, gradients under a gradient scaler, which
        lifts them, and zeros: units that rest have them too.

    What to do:
        - Scale the loss: `scaler = torch.amp.GradScaler()`, `scaler.scale(loss).backward()`,
          `scaler.step(optimizer)`, `scaler.update()`.
        - Use bfloat16 where the hardware has it: `torch.autocast(..., dtype=torch.bfloat16)`.
        - Keep the weights in float32 and let autocast choose where float16 is used.

    Example:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        loss.backward()                   # no scaler: small gradients become 0

    References:
        Micikevicius et al. 2018, Mixed Precision Training, section 3.2,
        https://arxiv.org/abs/1710.03740
    """

    code = "NUM006"
    needs = (Need(facts=(HalfPrecision,)),)
    explains = (
        "class_imbalance",
        "confusion",
        "learning_rate_too_low",
        "loss_not_decreasing",
        "unchanged_tensor",
        "update_lost_to_rounding",
        "vanishing_gradient",
    )
    passes = True

    small_share: float = threshold(
        0.5, unit="of the values that are not zero", source="chosen by hand: most of them"
    )
    looks: int = threshold(3, unit="sampled steps", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge the latest looks at gradients in float16."""
        if not window.total_steps:
            raise NotEnoughData("no step was seen")
        seen = [s for s in window.seen(HalfPrecision) if s.tensor.startswith("gradient:")]
        if not seen:
            raise NotApplicable("no gradient was computed in float16 without scaling")
        steps = sorted({s.step for s in seen})
        if len(steps) < self.looks:
            raise NotEnoughData(f"{len(steps)} steps were sampled, {self.looks} are needed")
        worst_S = np.array([max(s.small for s in seen if s.step == step) for step in steps])
        if worst_S[-self.looks :].min() <= self.small_share:
            return []
        ill = [s for s in seen if s.step == steps[-1] and s.small > self.small_share]
        ill.sort(key=lambda s: -s.small)
        held = np.flatnonzero(worst_S <= self.small_share)
        first = int(held[-1]) + 1 if len(held) else 0
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=steps[first],
                last_step=steps[-1],
                count=len(steps) - first,
                layers=tuple(s.tensor.partition(":")[2] for s in ill[:LAYERS_NAMED]),
                message=(
                    f"{100 * ill[0].small:.0f} % of the gradient of "
                    f"{ill[0].tensor.partition(':')[2]} that is not 0 is below 6.1e-05, the "
                    "smallest normal number of float16"
                ),
                evidence={
                    "value": ill[0].small,
                    "limit": self.small_share,
                    "zero": ill[0].zero,
                    "largest": ill[0].largest,
                },
                location=next((s.location for s in ill if s.location), None),
            )
        ]
