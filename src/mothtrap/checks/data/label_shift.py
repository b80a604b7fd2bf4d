"""PRE304: labels are distributed differently in training and evaluation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Array, DataSet, Subject
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ABSENT_BY_CHANCE = 1e-6
"""Probability below which training lacks classes of the evaluation by no chance; chosen by hand."""


@frozen
class LabelShift(Check):
    """Labels are distributed differently in training and evaluation.

    What it detects:
        Classes that only one of the datasets has, and class shares that differ. The distance is the
        share of labels that would have to change to make the shares equal.

    Why it matters:
        The evaluation measures a different task than the model learns. Usually the
        rows are sorted by class, and were split without shuffling.

    Fires:
        Warning when at least `warning` of the labels would have to change, or when `unseen` of the
        evaluation labels are of classes that training does not have; a note above `note`. The
        distance must also be `noise` times the distance of a random split.

    Stays quiet:
        Datasets with fewer than `least_rows` rows; targets that are not class numbers.

    What to do:
        - Shuffle before the split, or keep the shares: `train_test_split(x, y, stratify=y)`.

    Example:
        train, held_out = data[:800], data[800:]   # sorted by class

    References:
        https://scikit-learn.org/stable/modules/cross_validation.html#stratification
    """

    code = "PRE304"
    title = "labels differ between training and evaluation"
    uses = ("datasets",)
    passed = "training and evaluation have the same class shares"
    costs = 3
    explains = ("unseen_classes", "overfit")
    warning: float = threshold(0.25, unit="of the labels", source="chosen by hand")
    note: float = threshold(0.1, unit="of the labels", source="chosen by hand")
    unseen: float = threshold(0.05, unit="of the evaluation labels", source="as in DAT514")
    noise: float = threshold(3.0, unit="times the distance by chance", source="chosen by hand")
    least_rows: int = threshold(30, unit="rows", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the class shares of training and each evaluation dataset."""
        others = tables.evaluation_sets(subject)
        train = _labels(tables.training_set(subject), subject)
        decided = False
        for other in others:
            labels = _labels(other, subject)
            if min(len(train), len(labels)) >= self.least_rows:
                decided = True
                yield from self._compared(train, labels, other)
        if not decided:
            raise NotEnoughData(f"a dataset has fewer than {self.least_rows} rows")

    def _compared(self, train: Array, labels: Array, other: DataSet) -> Iterable[Found]:
        known = np.union1d(train, labels)
        ours = np.array([(train == one).mean() for one in known])
        theirs = np.array([(labels == one).mean() for one in known])
        distance = float(np.abs(ours - theirs).sum() / 2)
        joint = (ours * len(train) + theirs * len(labels)) / (len(train) + len(labels))
        spread = np.sqrt(joint * (1 - joint) * (1 / len(train) + 1 / len(labels)))
        chance = float(spread.sum() * 0.4)  # half of the mean size of a normal number, 0.8
        absent = [int(one) for one, share in zip(known, ours, strict=True) if share == 0]
        lacking = float(np.isin(labels, absent).mean())
        # Many classes make the distance noisy, but a frequent class is not absent by chance.
        unseen = lacking >= self.unseen and (1 - lacking) ** len(train) < ABSENT_BY_CHANCE
        if distance < max(self.note, self.noise * chance) and not unseen:
            return
        grave = distance >= self.warning or lacking >= self.unseen
        largest = int(np.argmax(np.abs(ours - theirs)))
        more = f"; training has no rows of the classes {tables.named(absent)}" if absent else ""
        yield Found(
            step=0,
            severity="warning" if grave else "info",
            message=f"{distance:.0%} of the evaluation labels of {other.name} would have to change "
            f"to match training: class {int(known[largest])} has {theirs[largest]:.0%} there, and "
            f"{ours[largest]:.0%} in training{more}",
            location=other.location,
            evidence={"distance": distance, "absent": [float(one) for one in absent[:100]]},
        )


def _labels(dataset: DataSet, subject: Subject) -> Array:
    return tables.classes(tables.read(dataset, subject).targets, subject)
