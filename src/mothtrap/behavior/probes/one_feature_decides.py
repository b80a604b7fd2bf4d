"""BEH102: a single column decides nearly everything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.confirm import mean_above
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.sklearn.simple_models import SimpleModel, simple_judged
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

MAX_COLUMNS = 200
LEAST_COLUMNS = 3


@frozen
class OneFeatureDecides(Probe):
    """One column determines nearly all predictions: a leak, or a rule that needs no model.

    What it detects:
        A column whose permutation raises the loss far more than the permutation of all other
        columns, and from which alone a small tree predicts nearly as well as the model.

    Why it matters:
        Such a column is often known only after the target, and missing or wrong in production.

    Fires:
        When the column has more than 80 % of the importance (its rise of the loss, as a share of
        the sum over all columns), and a tree of depth 5 on the column alone reaches 95 % of what
        the model gains over a constant prediction. A note if the model makes more than half of the
        errors of a constant prediction, because the other columns may then just not help.

    Stays quiet:
        Tables of fewer than three columns.

    What to do:
        - Find out when and how the column gets its value. If only with the target, remove it.
        - If the column is legitimate, use the rule instead of the model.

    References:
        Kaufman et al., Leakage in data mining, 2012; Breiman, Random forests, 2001.
    """

    code = "BEH102"
    severity = Severity.WARNING
    cost = 2

    least_share: float = threshold(0.8, unit="share of the importance", source="chosen by hand")
    least_score: float = threshold(0.95, unit="share of the gain", source="chosen by hand")
    most_left: float = threshold(
        0.5,
        unit="times the error of a constant",
        source="chosen by hand: other features add little to a leak",
    )

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Permute each column, and fit a tree to the most important one."""
        columns = subject.table.columns[:MAX_COLUMNS]
        if len(columns) < LEAST_COLUMNS:
            raise NotApplicable(f"needs {LEAST_COLUMNS} columns, has {len(columns)}")
        judged, rng = subject.judged, subject.rng("importance")
        rows, target_R = subject.table.take(subject.asked), judged.target_R[subject.asked]
        before_R = judged.loss_R[subject.asked]
        rises = []
        for column in columns:
            given_R = np.asarray(column.given_R)[subject.asked]
            asked = rows.replaced({column.name: given_R[rng.permutation(len(rows))]})
            scores = subject.ask(asked)
            after = Judged(
                asked, target_R, scores, subject.reading, subject.asked, subject.options.loss
            )
            rises.append(after.loss_R - before_R)
        sums = np.maximum([float(rise_R.mean()) for rise_R in rises], 0.0)
        first = int(sums.argmax())
        if sums.sum() <= 0 or sums[first] < self.least_share * sums.sum():
            return
        name, share = columns[first].name, float(sums[first] / sums.sum())
        score, left = self._score(subject, name)
        if score < self.least_score:
            return
        yield Suspicion(
            message=f"{name} has {percent(share)} of the importance"
            + f", and a small tree on it alone reaches {percent(score)}"
            + " of the model's gain over a constant prediction",
            p=mean_above(rises[first])[0],
            features=(name,),
            severity=Severity.INFO if left > self.most_left else None,
            code=(f"Train without the column: `X = X.drop(columns=[{name!r}])`.",),
            evidence={"n": len(rows), "value": share, "reference": self.least_share, "tree": score},
        )

    def _score(self, subject: Subject, name: str) -> tuple[float, float]:
        """Return the gain of a tree on one column, relative to the model's, and the model's error.

        The error is relative to the error of a constant prediction.
        """
        judged, classes = subject.judged, len(subject.reading.classes)
        alone = Table({name: np.asarray(subject.table.column(name).given_R)})
        tree = SimpleModel("tree", classes, alone)
        input_RF, rows_R = tree.encoded(alone), subject.confirm_R
        tree.fit(input_RF[subject.propose_R], judged.target_R[subject.propose_R])
        scores = tree.scores(input_RF[rows_R])
        if subject.reading.form == "labels":
            scores = (scores == scores.max(axis=1, keepdims=True)).astype(float)
        found = Judged(
            alone.take(rows_R),
            judged.target_R[rows_R],
            scores,
            subject.reading,
            judged.rows_R[rows_R],
            subject.options.loss,
        )
        constant = float(simple_judged(subject, "constant").error_R[rows_R].mean())
        own = float(judged.error_R[rows_R].mean())
        gain = constant - own
        if gain <= 0:
            return 0.0, 1.0
        return (constant - float(found.error_R.mean())) / gain, own / constant
