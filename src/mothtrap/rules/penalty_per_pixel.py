"""LOS434: a gradient penalty takes the norm of each pixel instead of each sample."""

from __future__ import annotations

import math

from mothtrap.core.facts.loss_terms import GradientPenalty
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS434",
    title="gradient penalty of each pixel",
    needs=[Need(facts=(GradientPenalty,))],
    explains=(
        *("exploding_gradient", "gradient_spike", "loss_diverging", "loss_oscillating"),
        *("loss_spike", "weight_growth"),
    ),
)
def penalty_per_pixel(
    window: Window,
    *,
    looks: int = threshold(
        4, unit="backward passes", source="chosen by hand: the form of a loss does not change"
    ),
) -> Found | None:
    """A gradient penalty takes the norm of each pixel instead of each sample.

    What it detects:
        The penalty `(norm - 1) ** 2` of a critic with convolutions, as in WGAN-GP, whose norm is
        taken over the channels of an image only, so that a sample has one norm for each pixel.

    Why it matters:
        The norm of the whole gradient of a sample should be 1. If that of each pixel is pulled to
        1, the whole norm grows to the square root of the number of pixels. The scores of the critic
        then become far too large, and the training is unstable.

    Fires:
        Warning when, in at least `looks` inspected backward passes at one line, the loss contains
        the square of a norm minus a constant, the norm is that of the gradient of images that go
        into a convolution, and a sample has more than one norm.

    Stays quiet:
        For one norm per sample, and for gradients of coordinates (signed distances), whose network
        does not begin with a convolution. For penalties without a constant, such as R1.

    What to do:
        - Flatten each sample first: `gradients.flatten(1).norm(2, dim=1)`.

    Example:
        penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean()
        penalty = ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()

    References:
        Gulrajani et al. 2017, Improved training of Wasserstein GANs,
        https://arxiv.org/abs/1704.00028
    """
    for one in window.seen(GradientPenalty, steps=looks):
        if one.found < looks:
            continue
        norms = math.prod(one.norms[1:])
        return Found.of(
            one,
            f"a gradient of shape {one.gradient} has norms of shape {one.norms} in {one.found} of "
            f"{one.looks} inspected backward passes (limit {looks}): the penalty holds each of "
            f"{norms} norms of a sample near a constant, instead of the norm of the sample",
            step=0,
            count=one.found,
            evidence={"looks": one.looks, "found": one.found, "norms": norms, "limit": looks},
        )
    return None
