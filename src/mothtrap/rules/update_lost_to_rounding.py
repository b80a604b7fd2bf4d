"""NUM008: updates are smaller than the spacing of 16-bit numbers, so weights do not change."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, RoundedUpdates
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.proof import Proof
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._weights import optimizer_facts, optimizer_location

NARROW = ("bfloat16", "float16")


@rule(
    "NUM008",
    title="updates lost to rounding",
    needs=[Need(facts=(RoundedUpdates, OptimizerFacts)), Need(scalars=("lr",), optional=True)],
    explains=(
        *UNLEARNED,
        "learning_rate_too_low",
        "overtraining",
        "unchanged_tensor",
        "update_ratio",
    ),
    proof=Proof(
        title="Share of weights that an update leaves unchanged",
        fact=RoundedUpdates,
        field="unchanged",
        over="elements",
        subject="optimizer",
        reference=("limit",),
    ),
)
def update_lost_to_rounding(
    window: Window,
    *,
    error_share: float = threshold(
        0.8,
        unit="of the elements with a gradient",
        source="measured: AdamW at 1e-4 on bfloat16 weights loses 88 % over 20 steps and ends at "
        "a loss of 1.38, in float32 at 0.50; at 1e-3 it loses 25 % and learns",
    ),
    warning_share: float = threshold(0.5, unit="of the elements", source="chosen by hand"),
    elements: int = threshold(100, unit="elements with a gradient", source="chosen by hand"),
    decayed_share: float = threshold(0.1, unit="of the peak rate", source="chosen by hand"),
) -> Found | None:
    """Updates are smaller than the spacing of 16-bit numbers, so weights do not change.

    What it detects:
        Weights in bfloat16 or float16 whose elements get a gradient in step after step and do not
        change: the sum of weight and update rounds back to the weight.

    Why it matters:
        bfloat16 has 8 bits of precision: changes below 1/256 of a weight are lost, and typical
        updates are 1e-3 of the weight. Training stalls at a loss that float32 weights easily pass.

    Fires:
        Over 20 steps, for `elements` elements or more with a gradient: error when more than
        `error_share` of them are unchanged, warning above `warning_share`.

    Stays quiet:
        Float32 weights, also under autocast. Optimizers that keep a compensation or float32 copies.
        A learning rate of 0, or one that has decayed below `decayed_share` of its peak: near the
        end, updates may be that small.

    What to do:
        - PyTorch: Keep the weights in float32 and compute under `torch.autocast`.
        - Keras: Keep the weights in float32 with the policy `mixed_bfloat16`.
        - JAX: Keep the weights in float32, and cast them inside the loss function.
        - Use an optimizer with float32 copies of the weights, Kahan summation, or stochastic
          rounding.
        - Raise the learning rate if possible: larger updates are not rounded away.

    Example:
        model = model.to(torch.bfloat16)                # the weights themselves
        with torch.autocast("cuda", torch.bfloat16):    # the computation alone
            loss = loss_fn(model(x), y)

    References:
        Zamirai et al. 2020, Revisiting BFloat16 training,
        https://arxiv.org/abs/2010.06192
    """
    known = optimizer_facts(window)
    seen = list(window.seen(RoundedUpdates))
    if not seen:
        narrow = [facts for facts in known.values() if set(facts.weight_dtypes) & set(NARROW)]
        if known and not narrow:
            raise NotApplicable("no optimizer holds 16-bit weights")
        raise NotEnoughData("no sequence of observed steps is complete yet")
    lost = [
        one
        for one in seen
        if not (one.optimizer in known and known[one.optimizer].compensated)
        and one.elements >= elements
        and one.learning_rate > decayed_share * _peak_rate(window, one.optimizer)
        and one.unchanged > warning_share * one.elements
    ]
    if not lost:
        return None
    worst = max(lost, key=lambda one: one.unchanged / one.elements)
    share = worst.unchanged / worst.elements
    return Found.of(
        worst,
        f"{100 * share:.3g} % of the elements of {' and '.join(worst.dtypes)} weights are "
        f"unchanged after {worst.step - worst.since + 1} steps, although all of them got a "
        f"gradient, at a learning rate of {worst.learning_rate:.3g}",
        severity="error" if share > error_share else "warning",
        step=min(one.since for one in lost),
        last_step=max(one.step for one in lost),
        count=len(lost),
        evidence={
            "value": share,
            "limit": error_share,
            "elements": worst.elements,
            "learning_rate": worst.learning_rate,
            "optimizer": worst.optimizer,
        },
        location=optimizer_location(window, worst.optimizer),
    )


def _peak_rate(window: Window, optimizer: str) -> float:
    rates = [s for s in window.scalars("lr") if s.of == optimizer and len(s)]
    return max((float(series.values_S.max()) for series in rates), default=0.0)
