"""DAT515: the loss gives the rare class a lower weight than the frequent class."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._evaluations import trend
from mothtrap.rules._loss_calls import by_place, class_calls, finding_of_calls, label_counts


@frozen
class ClassWeightsInverted(Rule):
    """The loss gives the rare class a lower weight than the frequent class.

    What it detects:
        Class weights that grow with the number of labels of the class.

    Why it matters:
        Class weights should make up for rare classes. If they are swapped, or proportional to the
        counts instead of their inverse, they do the opposite: the rare class counts even less
        than without weights, and is never predicted.

    Fires:
        When, over at least `samples` labels, the most frequent class has at least `rarer` times
        the labels of the rarest weighted class, and the rarest class has less than `weight_share`
        of its weight. Warning for two classes whose weights have the same ratio as their counts,
        within a factor of `swapped`. Warning for more classes if the rank correlation of weights
        and counts is at least `correlation`. A note for other weights of two classes.

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

    code = "DAT515"
    title = "inverted class weights"
    needs = (Need(facts=(LossCall,)),)
    explains = ("class_imbalance", "stuck_at_chance", "constant_output")

    samples: int = threshold(500, unit="labels", source="as in DAT503")
    rarer: float = threshold(2.0, unit="times fewer labels", source="chosen by hand")
    weight_share: float = threshold(
        0.5, unit="of the weight of the most frequent class", source="chosen by hand"
    )

    swapped: float = threshold(
        3.0, unit="times", source="chosen by hand: covers weights of the square root of the counts"
    )
    correlation: float = threshold(0.7, unit="rank correlation", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every loss with class weights."""
        calls = [call for call in class_calls(window) if call.targets is not None]
        weighted = [call for call in calls if call.targets and call.targets.class_weights]
        if not weighted:
            if not calls:
                raise NotEnoughData("no labels of a class loss were recorded")
            raise NotApplicable("no loss has class weights")
        seen = 0
        for same in by_place(weighted):
            counts_K = label_counts(same)
            seen = max(seen, int(counts_K.sum()))
            if counts_K.sum() >= self.samples:
                found = self._judge(window, same, counts_K)
                if found is not None:
                    return [found]
        if seen < self.samples:
            raise NotEnoughData(f"needs {self.samples} labels, saw {seen}")
        return []

    def _judge(self, window: Window, calls: list[LossCall], counts_K: Floats) -> Finding | None:
        targets = calls[-1].targets
        told_K = np.array(targets.class_weights if targets else ())
        if len(told_K) > len(counts_K):
            return None
        weight_K = np.append(told_K, np.ones(len(counts_K) - len(told_K)))
        weighed = np.flatnonzero((counts_K > 0) & (weight_K > 0))
        if len(weighed) < 2:
            return None
        rare, most = (int(weighed[of(counts_K[weighed])]) for of in (np.argmin, np.argmax))
        if counts_K[rare] * self.rarer > counts_K[most]:
            return None
        if weight_K[rare] >= self.weight_share * weight_K[most]:
            return None
        many = len(weighed) > 2
        by_count = weighed[np.argsort(counts_K[weighed])]
        if many and trend(weight_K[by_count]) < self.correlation:
            return None
        swapped = (weight_K[rare] / weight_K[most]) / (counts_K[rare] / counts_K[most])
        sure = many or 1 / self.swapped <= swapped <= self.swapped
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.WARNING if sure else Severity.INFO,
            f"class {rare} is rare ({counts_K[rare]:.0f} of {counts_K.sum():.0f} labels) and has "
            f"weight {weight_K[rare]:.3g}, while class {most} ({counts_K[most]:.0f} labels) has "
            f"weight {weight_K[most]:.3g}",
            {
                "value": float(weight_K[rare] / weight_K[most]),
                "limit": self.weight_share,
                "rarest": rare,
                "most_frequent": most,
                "labels": int(counts_K.sum()),
            },
        )
