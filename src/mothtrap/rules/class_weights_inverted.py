"""DAT515: the loss gives the rare class a lower weight than the frequent class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.trees import TableSeen
from mothtrap.core.found import Found
from mothtrap.core.needs import Need, any_of
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Window
from mothtrap.rules._effects import CONFUSED
from mothtrap.rules._evaluations import trend
from mothtrap.rules._loss_calls import by_place, class_calls, label_counts


@rule(
    "DAT515",
    title="inverted class weights",
    needs=[*any_of(Need(facts=(LossCall,)), Need(facts=(TableSeen,)))],
    explains=(
        *("class_imbalance", *CONFUSED, "labels_unrelated"),
        *("stuck_at_chance", "constant_output", "constant_prediction"),
    ),
)
def class_weights_inverted(
    window: Window,
    *,
    samples: int = threshold(500, unit="labels", source="as in DAT503"),
    rarer: float = threshold(2.0, unit="times fewer labels", source="chosen by hand"),
    weight_share: float = threshold(
        0.5, unit="of the weight of the most frequent class", source="chosen by hand"
    ),
    swapped: float = threshold(
        3.0, unit="times", source="chosen by hand: covers weights of the square root of the counts"
    ),
    correlation: float = threshold(0.7, unit="rank correlation", source="chosen by hand"),
    most_share: float = threshold(
        0.9, unit="of the weights of all rows", source="chosen by hand: inverse counts give 1/K"
    ),
) -> Found | None:
    """The loss gives the rare class a lower weight than the frequent class.

    What it detects:
        Class weights that grow with the number of labels of the class. Also a weight that is so
        large that only one class counts. For tables, the weight of a class is the mean weight of
        its rows.

    Why it matters:
        Class weights should make up for rare classes. If they are swapped, or proportional to the
        counts instead of their inverse, they do the opposite: the rare class counts even less
        than without weights, and is never predicted.

    Fires:
        When, over at least `samples` labels, the most frequent class has at least `rarer` times
        the labels of the rarest weighted class, and the rarest class has less than `weight_share`
        of its weight. Warning for two classes whose weights have the same ratio as their counts,
        within a factor of `swapped`. Warning for more classes if the rank correlation of weights
        and counts is at least `correlation`. A note for other weights of two classes. Warning when
        one of at least three classes has fewer than half of the labels, but more than `most_share`
        of the weight of all rows.

    Stays quiet:
        For weights of 0, which exclude a class on purpose. For classes that do not occur. For
        several classes if only some of them have a low weight.

    What to do:
        - Weight each class by its inverse frequency: `len(y) / (classes * count)`.
        - PyTorch: Check the order of `CrossEntropyLoss(weight=...)`: weight k belongs to label k.
        - Keras: Check the keys of `fit(..., class_weight={0: 0.6, 1: 4.5})`: key k is label k.

    Example:
        model.fit(x, y, class_weight={0: 4.5, 1: 0.6})       # 1 of 9 is of class 1
        model.fit(x, y, class_weight={0: 0.6, 1: 4.5})

    References:
        King, Zeng 2001, Logistic regression in rare events data, Political Analysis 9(2)
    """
    limits = _Limits(samples, rarer, weight_share, swapped, correlation, most_share)
    tables = [one for one in window.seen(TableSeen) if not one.site and one.class_weights]
    if tables:
        judged = (_judge(_of_table(one), limits) for one in tables)
        return next((found for found in judged if found is not None), None)
    calls = [call for call in class_calls(window) if call.targets is not None]
    weighted = [call for call in calls if call.targets and call.targets.class_weights]
    if not weighted:
        if not calls:
            raise NotEnoughData("no labels of a class loss were recorded")
        raise NotApplicable("no loss has class weights")
    seen = 0
    for same in by_place(weighted):
        given = _of_calls(same)
        seen = max(seen, int(given.counts_K.sum()))
        found = _judge(given, limits)
        if found is not None:
            return found
    if seen < samples:
        raise NotEnoughData(f"needs {samples} labels, saw {seen}")
    return None


@dataclass(frozen=True, slots=True)
class _Limits:
    """The thresholds of the rule."""

    samples: int
    rarer: float
    weight_share: float
    swapped: float
    correlation: float
    most_share: float


@dataclass(frozen=True, slots=True, eq=False)
class _Weighted:
    """Label counts and weights of classes, and the facts that report them.

    Attributes:
        extra: Number of weights for classes above the largest label.
    """

    counts_K: Floats
    weight_K: Floats
    facts: Sequence[LossCall] | TableSeen
    extra: int = 0


def _of_calls(same: list[LossCall]) -> _Weighted:
    counts_K, targets = label_counts(same), same[-1].targets
    weight_K = np.array(targets.class_weights if targets else ())
    missing = len(counts_K) - len(weight_K)
    padded_K = np.append(weight_K, np.ones(max(0, missing)))
    return _Weighted(counts_K, padded_K, same, max(0, -missing))


def _of_table(one: TableSeen) -> _Weighted:
    counts_K = np.array(one.label_counts or (), np.float64)
    return _Weighted(counts_K, np.array(one.class_weights), one)


def _judge(given: _Weighted, limits: _Limits) -> Found | None:
    """Return the finding about the weights of one loss or table."""
    counts_K, weight_K = given.counts_K, given.weight_K
    if counts_K.sum() < limits.samples or given.extra or len(weight_K) != len(counts_K):
        return None
    weighed = np.flatnonzero((counts_K > 0) & (weight_K > 0))
    if len(weighed) < 2:
        return None
    found = _outweighs(given, weighed, limits)
    if found is not None:
        return found
    rare, most = (int(weighed[of(counts_K[weighed])]) for of in (np.argmin, np.argmax))
    if counts_K[rare] * limits.rarer > counts_K[most]:
        return None
    if weight_K[rare] >= limits.weight_share * weight_K[most]:
        return None
    many = len(weighed) > 2
    by_count = weighed[np.argsort(counts_K[weighed])]
    if many and trend(weight_K[by_count]) < limits.correlation:
        return None
    times = (weight_K[rare] / weight_K[most]) / (counts_K[rare] / counts_K[most])
    table = isinstance(given.facts, TableSeen)
    sure = many or table or 1 / limits.swapped <= times <= limits.swapped
    return Found.of(
        given.facts,
        f"class {rare} is rare ({counts_K[rare]:.0f} of {counts_K.sum():.0f} labels) and has "
        f"weight {weight_K[rare]:.3g}, while class {most} ({counts_K[most]:.0f} labels) has "
        f"weight {weight_K[most]:.3g}",
        severity="warning" if sure else "info",
        evidence={
            "value": float(weight_K[rare] / weight_K[most]),
            "limit": limits.weight_share,
            "rarest": rare,
            "most_frequent": most,
            "labels": int(counts_K.sum()),
        },
    )


def _outweighs(given: _Weighted, weighed: Ints, limits: _Limits) -> Found | None:
    """Return the finding about a class whose weight makes all others count little."""
    if len(weighed) <= 2:
        return None
    part_K = given.counts_K * given.weight_K / (given.counts_K @ given.weight_K)
    heavy = int(part_K.argmax())
    label_share = float(given.counts_K[heavy] / given.counts_K.sum())
    if part_K[heavy] <= limits.most_share or label_share >= 0.5:
        return None
    others = weighed[weighed != heavy]
    return Found.of(
        given.facts,
        f"class {heavy} has weight {given.weight_K[heavy]:.3g}, and no other class more than "
        f"{given.weight_K[others].max():.3g}: {100 * label_share:.3g} % of the labels make up "
        f"{100 * part_K[heavy]:.3g} % of the weighted loss (limit {100 * limits.most_share:g} %)",
        severity="warning",
        title="one class outweighs all others",
        evidence={"value": float(part_K[heavy]), "limit": limits.most_share, "class": heavy},
    )
