"""LOS432: a class loss takes distances as scores."""

from __future__ import annotations

from mothtrap.core.facts.pairs import DistancesAsScores
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "LOS432",
    title="distances as scores",
    needs=[Need(facts=(DistancesAsScores,))],
    explains=(*UNLEARNED, "weight_growth", "metric_contradicts_loss", "overfit"),
)
def distances_as_scores(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Found | None:
    """A class loss takes distances as scores.

    What it detects:
        A cross-entropy whose scores are distances, without a minus sign.

    Why it matters:
        A cross-entropy makes the score of the label larger than the others. If the scores are
        distances, it moves a row away from its class or its partner, and towards all others. The
        loss falls anyway, but the nearest neighbors are the wrong ones.

    Fires:
        Warning when, in `looks` sampled backward passes at one line, all scores of a softmax in the
        loss are Euclidean distances or their squares, times positive factors.

    Stays quiet:
        For negative distances, and for distances that pass through a layer or any other function
        before the softmax. If a factor may be negative.

    What to do:
        - Negate the distances: `cross_entropy(-distance, label)`.

    Example:
        loss = cross_entropy(torch.cdist(rows, centers), labels)
        loss = cross_entropy(-torch.cdist(rows, centers), labels)

    References:
        Snell, Swersky, Zemel 2017, Prototypical networks for few-shot learning, equation 2,
        https://arxiv.org/abs/1703.05175
    """
    for one in window.seen(DistancesAsScores, steps=looks):
        if one.found < looks:
            continue
        return Found.of(
            one,
            f"the {one.choices} scores of the cross-entropy are distances in {one.found} of "
            f"{one.looks} sampled backward passes (limit {looks}): the loss makes the distance to "
            "the label larger than the others",
            step=0,
            count=one.found,
            evidence={"looks": one.looks, "found": one.found, "limit": looks},
        )
    return None
