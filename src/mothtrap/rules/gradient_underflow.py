"""NUM006: gradients underflow in float16."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.modules import HalfPrecision
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.proof import Proof
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import CONFUSED

LAYERS_NAMED = 10
"""Most layers that a finding names."""


@rule(
    "NUM006",
    needs=[Need(facts=(HalfPrecision,))],
    explains=(
        "class_imbalance",
        *CONFUSED,
        "learning_rate_too_low",
        "loss_not_decreasing",
        "unchanged_tensor",
        "update_lost_to_rounding",
        "vanishing_gradient",
    ),
    proof=Proof(
        title="Share of values below the smallest normal number",
        fact=HalfPrecision,
        field="small",
        subject="tensor",
        reference=("limit",),
    ),
    passes=True,
)
def gradient_underflow(
    window: Window,
    *,
    small_share: float = threshold(
        0.5, unit="of the nonzero values", source="chosen by hand: most of them"
    ),
    looks: int = threshold(3, unit="sampled steps", source="chosen by hand"),
) -> Found | None:
    """Gradients underflow in float16.

    What it detects:
        Float16 gradients whose values are mostly below 6.1e-5, the smallest normal number of
        float16. These values lose precision, and below 6e-8 they become 0.

    Why it matters:
        Small gradients are not noise: together they drive most of the learning. A larger learning
        rate does not restore a gradient that became 0.

    Fires:
        Warning when in each of the last `looks` sampled steps some tensor has more than
        `small_share` of its nonzero gradient values below 6.1e-5.

    Stays quiet:
        For bfloat16, which has the range of float32. With a gradient scaler. For zeros, because
        inactive units also have them.

    What to do:
        - PyTorch: Scale the loss: `scaler = torch.amp.GradScaler()`,
          `scaler.scale(loss).backward()`, `scaler.step(optimizer)`, `scaler.update()`.
        - PyTorch: Use bfloat16 if the hardware supports it: `torch.autocast(...,
          dtype=torch.bfloat16)`.
        - PyTorch: Keep the weights in float32 and let autocast choose the operations that use
          float16.
        - Keras: Wrap the optimizer in `keras.optimizers.LossScaleOptimizer(optimizer)`.
        - JAX: Multiply the loss by a constant, such as 1024, and divide the gradients by it.
        - Keras, JAX: Use bfloat16 if the hardware supports it.

    Example:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        loss.backward()                   # no scaler: small gradients become 0

    References:
        Micikevicius et al. 2018, Mixed Precision Training, section 3.2,
        https://arxiv.org/abs/1710.03740
    """
    seen = [s for s in window.seen(HalfPrecision, steps=1) if s.tensor.startswith("gradient:")]
    if not seen:
        raise NotApplicable("no gradient was computed in float16 without scaling")
    steps = sorted({s.step for s in seen})
    if len(steps) < looks:
        raise NotEnoughData(f"needs {looks} sampled steps, saw {len(steps)}")
    worst_S = np.array([max(s.small for s in seen if s.step == step) for step in steps])
    if worst_S[-looks:].min() <= small_share:
        return None
    ill = [s for s in seen if s.step == steps[-1] and s.small > small_share]
    ill.sort(key=lambda s: -s.small)
    held = np.flatnonzero(worst_S <= small_share)
    first = int(held[-1]) + 1 if len(held) else 0
    return Found(
        step=steps[first],
        last_step=steps[-1],
        count=len(steps) - first,
        layers=tuple(s.tensor.partition(":")[2] for s in ill[:LAYERS_NAMED]),
        message=(
            f"{100 * ill[0].small:.0f} % of the nonzero gradient values of "
            f"{ill[0].tensor.partition(':')[2]} are below 6.1e-05, the smallest normal number of "
            f"float16 (limit {100 * small_share:g} %)"
        ),
        evidence={
            "value": ill[0].small,
            "limit": small_share,
            "zero": ill[0].zero,
            "largest": ill[0].largest,
        },
        location=next((s.location for s in ill if s.location), None),
    )
