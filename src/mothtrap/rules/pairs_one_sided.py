"""LOS425: a loss of pairs only pulls them together."""

from __future__ import annotations

from mothtrap.core.facts.pairs import OneSidedPairs
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS425",
    severity="info",
    title="pairs are only pulled together",
    needs=[Need(facts=(OneSidedPairs,))],
    explains=("too_good_to_be_true", "weight_growth", "overtraining", "constant_output"),
)
def pairs_one_sided(
    window: Window,
    *,
    looks: int = threshold(4, unit="backward passes", source="as in LOS416"),
) -> Found | None:
    """A loss of pairs only pulls them together, or only pushes them apart.

    What it detects:
        A loss that consists of log-sigmoids of scores, each the product of two vectors, as in
        word2vec. All scores have the same sign, although the loss has several terms.

    Why it matters:
        One term is meant for pairs that belong together, and the other one for drawn pairs. If both
        have the same sign, equal vectors for everything are perfect: the loss falls to almost 0,
        and the vectors say nothing.

    Fires:
        Info when this is true in all of `looks` inspected backward passes.

    Stays quiet:
        For a single term. For losses with any other term, and for differences of two scores, as in
        ranking.

    What to do:
        - Change the sign of the scores of drawn pairs: `logsigmoid(-negative_scores)`.

    Example:
        loss = -(logsigmoid(score(word, near)) + logsigmoid(score(word, drawn))).mean()
        loss = -(logsigmoid(score(word, near)) + logsigmoid(-score(word, drawn))).mean()

    References:
        Mikolov et al. 2013, Distributed representations of words and phrases, equation 4,
        https://arxiv.org/abs/1310.4546
    """
    for one in window.seen(OneSidedPairs, steps=looks):
        if one.looks < looks:
            continue
        goal = "pulls pairs together" if one.together else "pushes pairs apart"
        return Found.of(
            one,
            f"all {one.terms} terms of the loss have the same sign in {one.looks} of {one.looks} "
            f"backward passes (limit {looks}): the loss only {goal}",
            step=0,
            count=one.looks,
            evidence={"looks": one.looks, "limit": looks, "terms": one.terms},
        )
    return None
