"""LOS436: the scores of several pairs are summed before a log-sigmoid."""

from __future__ import annotations

from mothtrap.core.facts.pairs import ScoresSummed
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS436",
    title="scores summed before a log-sigmoid",
    needs=[Need(facts=(ScoresSummed,))],
)
def scores_summed(
    window: Window,
    *,
    looks: int = threshold(
        4, unit="backward passes", source="chosen by hand: the form of a loss does not change"
    ),
) -> Found | None:
    """The scores of several pairs are summed before a log-sigmoid.

    What it detects:
        A loss of negative sampling, as in word2vec, that sums the scores of the wrong partners of a
        word and then takes one log-sigmoid, instead of summing their log-sigmoids.

    Why it matters:
        Only the sum of the scores has to be low. One wrong partner with a very low score is enough,
        and the others may keep high scores. All of them get the same gradient.

    Fires:
        Warning when, in at least `looks` inspected backward passes at one line, the loss contains a
        log-sigmoid of matrix products, and another one of sums of matrix products.

    Stays quiet:
        For scores that are products of two vectors written as a product and a sum. For losses in
        which every log-sigmoid gets a sum.

    What to do:
        - Take the log-sigmoid first: `logsigmoid(scores).sum(1)`.

    Example:
        negative = logsigmoid(-scores.sum(1))       # scores: (batch, negatives)
        negative = logsigmoid(-scores).sum(1)

    References:
        Mikolov et al. 2013, Distributed representations of words and phrases and their
        compositionality, equation 4, https://arxiv.org/abs/1310.4546
    """
    for one in window.seen(ScoresSummed, steps=looks):
        if one.found < looks:
            continue
        return Found.of(
            one,
            f"{one.scores} scores are summed before a log-sigmoid in {one.found} of {one.looks} "
            f"inspected backward passes (limit {looks}): only their sum has to be low or high",
            step=0,
            count=one.found,
            evidence={"looks": one.looks, "found": one.found, "scores": one.scores},
        )
    return None
