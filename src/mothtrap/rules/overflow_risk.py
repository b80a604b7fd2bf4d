"""NUM007: values come close to the largest number of their type."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.modules import HalfPrecision
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.proof import Proof
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

LAYERS_NAMED = 10
"""Maximum number of layers that a finding names."""


@rule(
    "NUM007",
    needs=[Need(facts=(HalfPrecision,))],
    explains=(
        "nonfinite_activation",
        "nonfinite_gradient",
        "nonfinite_loss",
        "loss_scale_collapse",
    ),
    proof=Proof(
        title="Largest absolute value",
        fact=HalfPrecision,
        field="largest",
        subject="tensor",
        reference=("limit",),
        scale="log",
    ),
)
def overflow_risk(
    window: Window,
    *,
    limit_share: float = threshold(
        0.125,
        unit="of the largest number of the type",
        source="chosen by hand: 3 doublings before an overflow",
    ),
) -> Found | None:
    """Values come close to the largest number of their type.

    What it detects:
        Float16 outputs of modules, or gradients, that reach an eighth of 65504, the largest float16
        number.

    Why it matters:
        After three more doublings the value is infinite, and one infinite value soon makes the loss
        NaN. Intermediate sums and products are larger than the stored values.

    Fires:
        Warning when the largest finite absolute value of a tensor exceeds `limit_share` of the
        largest number of its type, in any sampled step.

    Stays quiet:
        bfloat16 and float32, whose range is large enough. Infinite values, which the rules for
        non-finite values report.

    What to do:
        - PyTorch: Use bfloat16 if the hardware supports it, or compute this part in float32: `with
          torch.autocast("cuda", enabled=False)`.
        - Average instead of summing over many positions; divide attention scores by the square root
          of the head size.
        - Normalize the inputs, and put a normalization layer before this part.

    Example:
        pooled = tokens.sum(dim=1)        # float16: 4096 positions add up
        pooled = tokens.mean(dim=1)

    References:
        Micikevicius et al. 2018, Mixed Precision Training, section 3.2,
        https://arxiv.org/abs/1710.03740
    """
    seen = list(window.seen(HalfPrecision, steps=1))
    if not seen:
        raise NotApplicable("no float16 output or gradient was recorded")
    near = [s for s in seen if s.largest > limit_share * s.limit]
    if not near:
        return None
    worst = max(near, key=lambda s: s.largest)
    names = dict.fromkeys(s.tensor.partition(":")[2] for s in near)
    limit = limit_share * worst.limit
    return Found.of(
        near,
        f"{worst.tensor.partition(':')[2]} reaches {worst.largest:.4g} in {worst.dtype} (limit "
        f"{limit:.4g}); the largest number of the type is {worst.limit:.4g}",
        layers=tuple(names)[:LAYERS_NAMED],
        evidence={"value": worst.largest, "limit": limit, "largest": worst.limit},
        location=next((s.location for s in near if s.location), None),
    )
