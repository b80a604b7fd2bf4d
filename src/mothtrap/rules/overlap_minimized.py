"""LOS421: the loss adds the overlap of prediction and target, which should grow."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.loss_terms import OverlapAdded
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "LOS421",
    title="overlap is minimized",
    needs=[Need(facts=(OverlapAdded,))],
    explains=(*UNLEARNED, "constant_output", "dead_units", "metric_contradicts_loss"),
)
def overlap_minimized(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Found | None:
    """The loss adds the overlap of prediction and target, which should grow.

    What it detects:
        A Dice coefficient, an intersection over union, or a similar ratio of the common area to
        the sum of both areas that is added to the loss instead of subtracted.

    Why it matters:
        The overlap is 1 for a perfect prediction. With a plus sign, training moves it to 0: the
        model learns to predict everything but the target, or two terms of the loss work against
        each other. The loss falls anyway.

    Fires:
        Warning when, in `looks` sampled backward passes at one line, all overlaps of a prediction
        and a constant have a plus sign.

    Stays quiet:
        For `1 - overlap`, `-overlap`, and `-log(overlap)`. If any overlap of the loss is
        subtracted, or its sign is unknown. For overlaps of two predictions. For ratios whose
        divisor may not contain the area of the target, such as `p.sum() + number`.

    What to do:
        - Subtract the overlap: `loss = 1 - dice`.

    Example:
        loss = (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
        loss = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)

    References:
        Milletari, Navab, Ahmadi 2016, V-Net: fully convolutional neural networks for volumetric
        medical image segmentation, https://arxiv.org/abs/1606.04797
    """
    seen = list(window.seen(OverlapAdded, steps=looks))
    if not seen:
        raise NotApplicable("no overlap in a loss was recorded")
    for one in seen:
        if one.added == one.looks >= looks:
            return Found.of(
                one,
                f"the loss adds the overlap of prediction and target in {one.added} of {one.looks} "
                "sampled backward passes: minimizing it makes the overlap smaller",
                step=0,
                count=one.looks,
                evidence={"looks": one.looks, "limit": looks},
            )
    return None
