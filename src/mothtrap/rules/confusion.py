"""DAT504: examples of one class are taken for another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import EvidenceValue, Finding, Severity
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
"""Share of the examples of a class that are taken for the other, each way; chosen by hand."""
KEPT = 0.9
"""Share of an earlier confusion that must be left: what falls faster is being learned. By hand."""


@dataclass(frozen=True)
class Confusion(Rule):
    """Examples of one class are taken for another.

    What it detects:
        A pair of classes of which one is mostly predicted as the other, in the last looks
        at the labels and predictions of training.

    Why it matters:
        When most classes are learned and one is taken for another, the two may be labelled
        inconsistently, may look the same in the inputs, or one is too rare to matter to
        the loss.

    Fires:
        Warning, over the last `samples` labels and as many before, with at least
        `row_samples` of the class, when less than `min_diag` of the examples of a class are
        right, or more than `max_off_diag` of them are predicted as one other class, or the
        shares of two classes that are taken for each other add up to `by_chance`, and the
        share has not changed for the better by a tenth; so long as at least `learned_share`
        of all examples are right.

    Stays quiet:
        While the model as a whole has not learned yet, or the loss still falls; games; more
        than 20 classes; several labels an example; a class taken for one with more than
        `imbalance` times its labels: that is class_imbalance. By default a low diagonal alone
        does not fire.

    What to do:
        - Look at examples of both classes with their predictions: are the labels right?
        - Check the table of class names for entries that are swapped or doubled.
        - Look at what augmentation makes of them: a flip turns left into right.
        - If one class is rare, weigh it in the loss, or draw it more often.

    Example:
        names = ["cat", "dog", "dog", "fox"]       # two numbers for one class
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
        source="chosen by hand: 0.9 as in SageMaker Debugger fires on every harder task",
    )
    max_off_diag: float = threshold(
        0.6,
        unit="of the examples of a class",
        source="chosen by hand: 0.1 as in SageMaker Debugger fires on every harder task",
    )
    by_chance: float = threshold(
        0.85,
        unit="of the examples of two classes that are taken for each other, added up",
        source="chosen by hand: guessing between two gives 1",
    )
    samples: int = threshold(
        400, unit="labels, and as many before", source="chosen by hand: 40 of each of 10 classes"
    )
    row_samples: int = threshold(10, unit="labels of the class", source="chosen by hand")
    imbalance: float = threshold(
        10.0, unit="times the labels of the class", source="as in class_imbalance"
    )
    learned_share: float = threshold(
        0.6, unit="of all examples", source="chosen by hand: before, all classes are confused"
    )

    def check(self, window: Window) -> list[Finding]:
        """Judge the latest confusion of every class loss."""
        calls = [call for call in class_calls(window) if is_classifier(call)]
        calls = [c for c in calls if c.targets is not None and c.targets.confusion]
        if not calls:
            raise NotApplicable("no predictions of at most 20 classes were seen")
        if has_players(window):
            raise NotApplicable("several losses play against each other")
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
            raise NotEnoughData(f"{seen} labels were seen, {2 * self.samples} are needed")
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
        """Judge two classes that are confused both ways, now as before."""
        both_KK = np.triu(np.minimum(share_KK + share_KK.T, then_KK + then_KK.T), 1)
        least_KK = np.minimum(share_KK, share_KK.T)
        both_KK = np.where(least_KK >= EACH_WAY, np.nan_to_num(both_KK), 0.0)
        one, other = map(int, np.unravel_index(int(both_KK.argmax()), both_KK.shape))
        value = float(both_KK[one, other])
        if value <= self.by_chance:
            return None
        message = (
            f"classes {one} and {other} are told apart no better than by chance: "
            f"{share_KK[one, other]:.0%} and {share_KK[other, one]:.0%} of them are taken for each "
            "other"
        )
        evidence: dict[str, EvidenceValue] = {"value": value, "limit": self.by_chance, "class": one}
        look, names, augmented, *_ = self.fixes(window)
        fixes = augmented, look, names
        return finding_of_calls(self, window, calls, Severity.WARNING, message, evidence, fixes)

    def _shares(self, confusion_KK: Floats) -> Floats:
        """Return shares of the examples of each class.

        NaN are those of classes with few labels, and of pairs of which the second has many
        times the labels of the first.
        """
        count_K = confusion_KK.sum(axis=1)
        share_KK = by_row(confusion_KK)
        rare_KK = count_K[None, :] > self.imbalance * count_K[:, None]
        share_KK[rare_KK & ~np.eye(len(share_KK), dtype=bool)] = np.nan
        share_KK[count_K < self.row_samples] = np.nan
        return share_KK
