"""PRE306: labels are wrong."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.sklearn import simple_models
from mothtrap.checks.subject import Array, Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

NEAR = 1e-6
"""Probabilities that differ by less are equal; as in cleanlab."""


@frozen
class LabelNoise(Check):
    """Labels are wrong.

    What it detects:
        Training rows whose label is contradicted with confidence by a simple model that did not see
        the row (confident learning).

    Why it matters:
        The model memorizes wrong labels, and the evaluation counts right predictions as errors.

    Fires:
        Warning when `share` of the rows are contradicted, and the model is wrong nearly as often in
        the quarter of the rows in which it is most confident as elsewhere: in `share` of these
        rows, `sure_ratio` times as often as elsewhere, and at least `least_wrong` times. A simple
        model usually errs where it is unsure, but wrong labels are everywhere. The message names
        the rows, the most confident first. In larger datasets, `most_rows` rows are checked.

    Stays quiet:
        Without scikit-learn; targets that are not class numbers; inputs that are neither a table
        nor images; data that a linear model and nearest neighbors predict with an accuracy below
        `accuracy`; classes with fewer than `least_rows` rows.

    What to do:
        - Look at the named rows, and correct or drop them.
        - Until then, label smoothing limits the damage.

    Example:
        wrong = rng.random(len(y)) < 0.15
        y[wrong] = rng.integers(0, 10, wrong.sum())

    References:
        Northcutt, Jiang, Chuang 2021, Confident learning, https://arxiv.org/abs/1911.00068
    """

    code = "PRE306"
    title = "labels are wrong"
    uses = ("datasets",)
    passed = "a simple model contradicts few labels"
    costs = 4
    explains = ("overfit",)
    share: float = threshold(0.04, unit="of the rows", source="chosen by hand")
    sure_ratio: float = threshold(
        0.45,
        unit="times the errors in all rows",
        source="measured on 12 datasets: below 0.39 if clean, above 0.5 with 15 % noise",
    )
    least_wrong: int = threshold(5, unit="rows", source="chosen by hand")
    accuracy: float = threshold(0.6, unit="of held-out rows", source="chosen by hand")
    least_rows: int = threshold(20, unit="rows of a class", source="chosen by hand")
    most_rows: int = threshold(4000, unit="rows", source="chosen by hand: takes a few seconds")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Predict the label of each row with a model that did not see the row."""
        train = tables.training_set(subject)
        if train.random:
            raise NotApplicable("samples change each time they are read")
        with simple_models.one_thread():
            rows = tables.read(train, subject, self.most_rows)
            classes, labels = np.unique(tables.classes(rows.targets, subject), return_inverse=True)
            counts = np.bincount(labels)
            if len(classes) < 2 or counts.min() < self.least_rows:
                raise NotEnoughData(
                    f"needs two classes and {self.least_rows} rows of each, but read "
                    f"{int(counts.min())} of one"
                )
            probabilities, accuracy = simple_models.held_out_probabilities(
                tables.features(rows), labels
            )
        subject.figures["rows"] = len(labels)
        subject.figures["accuracy of a simple model"] = accuracy
        if accuracy < self.accuracy:
            raise NotEnoughData(f"simple models predict only {accuracy:.0%} of the labels")
        bad = label_issues(labels, probabilities)
        subject.figures["share of doubtful labels"] = len(bad) / len(labels)
        if len(bad) < self.share * len(labels) or not self._everywhere(labels, probabilities):
            return
        order = bad[np.argsort(probabilities[bad, labels[bad]], kind="stable")]
        indices = [rows.indices[place] for place in order]
        yield Found(
            step=0,
            severity="warning",
            message=f"{len(bad)} of {len(labels)} training labels look wrong "
            f"({len(bad) / len(labels):.0%}): a model that did not see the row predicts another "
            f"class; rows {', '.join(map(str, indices[:10]))}",
            location=train.location,
            evidence={"indices": [float(one) for one in indices[:200]], "accuracy": accuracy},
        )

    def _everywhere(self, labels: Array, probabilities: Array) -> bool:
        """Return whether the model is also wrong where it is most confident."""
        wrong, certainty = probabilities.argmax(1) != labels, probabilities.max(1)
        sure = certainty >= np.quantile(certainty, 0.75)
        least = max(self.share, self.sure_ratio * wrong.mean())
        return bool(wrong[sure].sum() >= self.least_wrong and wrong[sure].mean() >= least)


def label_issues(labels: Array, probabilities: Array) -> Array:
    """Return the positions of labels that are likely wrong, in ascending order.

    A row belongs to a class with confidence if the probability of the class is at least its mean
    over the rows with this label. The label is wrong if the row belongs to another class with
    confidence, and its own class is not the most likely one. Equals the rule `confident_learning`
    of cleanlab 2.9.

    Args:
        labels: Class numbers, 0 to classes - 1, shape (rows,).
        probabilities: Class probabilities from a model that did not see the row, shape (rows,
            classes).
    """
    each = range(probabilities.shape[1])
    means = [probabilities[labels == k, k].mean() if (labels == k).any() else 2.0 for k in each]
    confident = probabilities >= np.maximum(means, 2 * NEAR) - NEAR
    likeliest = probabilities.argmax(1)
    guess = np.where(confident.sum(1) > 1, likeliest, confident.argmax(1))
    nudged = probabilities.copy()
    nudged[np.arange(len(labels)), labels] += NEAR
    wrong = confident.any(1) & (guess != labels) & (nudged.argmax(1) != labels)
    return np.flatnonzero(wrong)
