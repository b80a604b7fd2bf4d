"""DAT504: the model confuses one class with another."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._confusions import by_row, confusion, require_rows, two_stretches
from mothtrap.rules._loss_calls import (
    by_place,
    class_calls,
    finding_of_calls,
    has_fallen_since,
    is_classifier,
)
from mothtrap.rules._losses import has_players

EACH_WAY = 0.25
"""Least share of each class of a pair that is predicted as the other class; chosen by hand."""
KEPT = 0.9
"""Share of an earlier confusion that must remain; a confusion that falls faster is being learned.
Chosen by hand."""


@frozen
class Confusion(Rule):
    """The model confuses one class with another.

    What it detects:
        A class that is mostly predicted as another class in the latest training batches.

    Why it matters:
        If the model learns most classes but confuses two, their labels may be inconsistent, their
        inputs may look the same, or one of them is too rare to affect the loss.

    Fires:
        Warning when, among the last `samples` labels and the `samples` labels before them, with at
        least `row_samples` labels of the class, one of these is true: less than `min_diag` of the
        examples of a class are right; more than `max_off_diag` of them are predicted as one other
        class; or the shares of two classes predicted as each other add up to more than
        `by_chance`. The share must not have improved by a tenth, and at least `learned_share` of
        all examples must be right.

    Stays quiet:
        While the model has not learned most classes or the loss still falls. For GANs, more than
        20 classes, and multi-label targets. For a class confused with a class that has more than
        `imbalance` times its labels (see `class_imbalance`).

    What to do:
        - Look at examples of both classes and their predictions: are the labels right?
        - Check the list of class names for swapped or duplicate entries.
        - Check the augmented examples: a flip turns left into right.
        - If one class is rare, weight it in the loss or oversample it.

    Example:
        names = ["cat", "dog", "dog", "fox"]       # two indices for one class
        names = ["cat", "dog", "fox"]

    References:
        Northcutt, Jiang, Chuang 2021, Confident learning, JAIR 70,
        https://arxiv.org/abs/1911.00068
    """

    code = "DAT504"
    needs = (
        Need(facts=(LossCall,)),
        Need(scalars=("loss",), optional=True),
        Need(facts=(LoaderBegan,), optional=True),
    )
    explains = ("class_imbalance",)
    passes = True

    min_diag: float = threshold(
        0.05,
        unit="of the examples of a class",
        source="chosen by hand: SageMaker Debugger's 0.9 fires on every harder task",
    )
    max_off_diag: float = threshold(
        0.6,
        unit="of the examples of a class",
        source="chosen by hand: SageMaker Debugger's 0.1 fires on every harder task",
    )
    by_chance: float = threshold(
        0.85,
        unit="sum of the shares of two classes that are predicted as each other",
        source="chosen by hand: guessing between two classes gives 1",
    )
    samples: int = threshold(
        400, unit="labels, twice in a row", source="chosen by hand: 40 of each of 10 classes"
    )
    row_samples: int = threshold(10, unit="labels of the class", source="chosen by hand")
    imbalance: float = threshold(10.0, unit="times the labels of the class", source="as in DAT503")
    learned_share: float = threshold(
        0.6, unit="of all examples", source="chosen by hand: below 0.6, all classes are confused"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the latest confusion matrix of every class loss."""
        calls = [call for call in class_calls(window) if is_classifier(call)]
        calls = [c for c in calls if c.targets is not None and c.targets.confusion]
        if not calls:
            raise NotApplicable("no predictions of at most 20 classes were recorded")
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        require_rows(window, self.samples)
        seen, judged = 0, False
        for same in by_place(calls):
            before, late = two_stretches(same, self.samples)
            before_KK, late_KK = confusion(before), confusion(late)
            seen = max(seen, 0 if late_KK is None else int(late_KK.sum()))
            if before_KK is None or late_KK is None or before_KK.shape != late_KK.shape:
                continue
            judged = True
            found = self._judge(window, [*before, *late], before_KK, late_KK)
            if found is not None and not has_fallen_since(window, late):
                return [found]
        if not judged:
            raise NotEnoughData(f"needs {2 * self.samples} labels, saw {seen}")
        return []

    def _judge(
        self, window: Window, calls: list[LossCall], before_KK: Floats, late_KK: Floats
    ) -> Finding | None:
        if np.trace(late_KK) < self.learned_share * late_KK.sum():
            return None
        then_KK, share_KK = self._shares(before_KK), self._shares(late_KK)
        by_chance = self._by_chance(window, calls, then_KK, share_KK)
        if by_chance is not None:
            return by_chance
        is_other_KK = ~np.eye(len(share_KK), dtype=bool)
        taken_KK = np.where(is_other_KK & (share_KK > KEPT * then_KK), share_KK, 0.0)
        wrong_K, then_K = 1 - np.diagonal(share_KK), 1 - np.diagonal(then_KK)
        count_K = late_KK.sum(axis=1)
        is_rare_K = self.imbalance * count_K < count_K.max()
        held_K = np.where((wrong_K > KEPT * then_K) & ~is_rare_K, 1 - wrong_K, 1.0)
        row, column = np.unravel_index(int(taken_KK.argmax()), taken_KK.shape)
        worst = int(held_K.argmin())
        if taken_KK[row, column] > self.max_off_diag:
            value, limit = float(taken_KK[row, column]), self.max_off_diag
            message = f"{value:.0%} of the examples of class {row} are classified as class {column}"
            label = int(row)
        elif held_K[worst] < self.min_diag:
            value, limit, label = float(held_K[worst]), self.min_diag, worst
            right = f"only {value:.0%}" if value >= 0.005 else "none"
            message = f"{right} of the examples of class {worst} are classified correctly"
        else:
            return None
        evidence: dict[str, EvidenceValue] = {"value": value, "limit": limit, "class": label}
        return finding_of_calls(self, window, calls, Severity.WARNING, message, evidence)

    def _by_chance(
        self, window: Window, calls: list[LossCall], then_KK: Floats, share_KK: Floats
    ) -> Finding | None:
        """Find two classes that are confused both ways, now and before."""
        both_KK = np.triu(np.minimum(share_KK + share_KK.T, then_KK + then_KK.T), 1)
        least_KK = np.minimum(share_KK, share_KK.T)
        both_KK = np.where(least_KK >= EACH_WAY, np.nan_to_num(both_KK), 0.0)
        one, other = map(int, np.unravel_index(int(both_KK.argmax()), both_KK.shape))
        value = float(both_KK[one, other])
        if value <= self.by_chance:
            return None
        message = (
            f"the model distinguishes classes {one} and {other} no better than chance: "
            f"{share_KK[one, other]:.0%} and {share_KK[other, one]:.0%} of their examples are "
            "predicted as the other class"
        )
        evidence: dict[str, EvidenceValue] = {"value": value, "limit": self.by_chance, "class": one}
        look, names, augmented, *_ = self.fixes(window)
        fixes = augmented, look, names
        return finding_of_calls(self, window, calls, Severity.WARNING, message, evidence, fixes)

    def _shares(self, confusion_KK: Floats) -> Floats:
        """Return the confusion matrix as shares of each class.

        Classes with few labels are NaN, and so are pairs whose second class has many times the
        labels of the first.
        """
        count_K = confusion_KK.sum(axis=1)
        share_KK = by_row(confusion_KK)
        rare_KK = count_K[None, :] > self.imbalance * count_K[:, None]
        share_KK[rare_KK & ~np.eye(len(share_KK), dtype=bool)] = np.nan
        share_KK[count_K < self.row_samples] = np.nan
        return share_KK
