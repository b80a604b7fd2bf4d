"""LOS429: training minimizes a log-probability that it should maximize."""

from __future__ import annotations

from mothtrap.core.facts.loss_terms import ShareAdded
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "LOS429",
    title="log-probability is minimized",
    needs=[Need(facts=(ShareAdded,))],
    explains=(*UNLEARNED, "constant_output", "own_row_competes", "wrong_sign", "weight_growth"),
)
def likelihood_minimized(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Found | None:
    """Training minimizes a log-probability that it should maximize.

    What it detects:
        A softmax that is written by hand, as in contrastive losses, whose logarithm is added to
        the loss instead of subtracted: `log(exp(score) / exp(scores).sum())`.

    Why it matters:
        The probability of the right answer should become 1. With a plus sign, training makes it as
        small as possible. The loss falls anyway, and becomes more and more negative.

    Fires:
        Warning when, in at least `looks` inspected backward passes at one line, all logarithms of
        a quotient of exponentials have a plus sign.

    Stays quiet:
        If any of them is subtracted, or its sign is unknown. For entropies and policy gradients,
        which multiply the logarithm by other values.

    What to do:
        - Subtract the logarithm: `loss = -log(positive / total).mean()`.

    Example:
        loss = torch.log(positive / total).mean()
        loss = -torch.log(positive / total).mean()

    References:
        van den Oord, Li, Vinyals 2018, Representation learning with contrastive predictive coding,
        equation 4, https://arxiv.org/abs/1807.03748
    """
    for one in window.seen(ShareAdded, steps=looks):
        if one.added < looks:
            continue
        return Found.of(
            one,
            f"the loss adds the logarithm of a probability in {one.added} of {one.looks} inspected "
            f"backward passes (limit {looks}): minimizing it makes the right answer less probable",
            step=0,
            count=one.added,
            evidence={"looks": one.looks, "added": one.added, "limit": looks},
        )
    return None
