"""LOS430: a Dice loss is computed from raw scores."""

from __future__ import annotations

from mothtrap.core.facts.loss_terms import OverlapOfScores
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

SOFTMAX = "Apply a softmax over the classes before the overlap: `dice(scores.softmax(1), target)`."

ONE = "Apply only one activation: remove the {last} after the {first}."


@rule(
    "LOS430",
    title="Dice loss of raw scores",
    needs=[Need(facts=(OverlapOfScores,))],
    explains=(
        *UNLEARNED,
        *("wrong_sign", "loss_spike", "gradient_spike", "exploding_gradient", "loss_diverging"),
        *("loss_oscillating", "dead_units", "metric_contradicts_loss"),
    ),
)
def overlap_of_scores(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Found | None:
    """A Dice loss is computed from raw scores.

    What it detects:
        A Dice coefficient, an intersection over union, or a similar ratio of the common area to the
        sum of both areas whose prediction is the output of a linear or convolution layer. Also one
        whose prediction passed through two activations, such as a softmax and then a sigmoid.

    Why it matters:
        The overlap is defined for areas between 0 and 1. Raw scores have no bounds and may be
        negative, so the sum of the areas can be 0 or negative. The loss then has no lower bound and
        jumps, and its smallest value is not the right mask. Behind two activations, no prediction
        can come close to 0 or 1.

    Fires:
        Warning when, in `looks` sampled backward passes at one line, an overlap in the loss
        multiplies the target by outputs of a layer without an activation, or with two.

    Stays quiet:
        If one sigmoid, a softmax, a clamp, or any other operation comes between the layer and the
        overlap, except operations that resize or reshape.

    What to do:
        - Apply a sigmoid before the overlap: `dice(sigmoid(scores), target)`.

    Example:
        loss = 1 - dice(model(image), mask)
        loss = 1 - dice(torch.sigmoid(model(image)), mask)

    References:
        Milletari, Navab, Ahmadi 2016, V-Net: fully convolutional neural networks for volumetric
        medical image segmentation, https://arxiv.org/abs/1606.04797
    """
    for one in window.seen(OverlapOfScores, steps=looks):
        if one.found < looks:
            continue
        if one.twice:
            return _of_two(one, looks)
        several = len(one.shape) > 2 and one.shape[1] > 1
        return Found.of(
            one,
            f"the overlap of prediction and target in the loss is computed from raw outputs of a "
            f"layer in {one.found} of {one.looks} sampled backward passes (limit {looks}): they "
            "are not between 0 and 1, so the loss has no lower bound",
            step=0,
            count=one.found,
            evidence={"looks": one.looks, "found": one.found, "limit": looks},
            fixes=(SOFTMAX,) if several else (0,),
        )
    return None


def _of_two(one: OverlapOfScores, looks: int) -> Found:
    """Report an overlap whose prediction passed through two activations."""
    last, first = one.twice
    return Found.of(
        one,
        f"the overlap of prediction and target in the loss gets a {last} of a {first} in "
        f"{one.found} of {one.looks} sampled backward passes (limit {looks}): its predictions "
        "cannot come close to 0 and 1",
        title="two activations before a Dice loss",
        step=0,
        count=one.found,
        evidence={"looks": one.looks, "found": one.found, "limit": looks},
        fixes=(ONE.format(last=last, first=first),),
    )
