"""EST952: a fitted estimator predicts the same for every row."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
class ConstantPrediction(Rule):
    """A fitted estimator predicts the same for every row.

    What it detects:
        A classifier that names one class for all rows that it was trained on, or a regression
        whose predictions hardly differ.

    Why it matters:
        Its accuracy is the share of the most frequent class, which may look well. Units that are
        dead, a penalty that is too strong, a step that is too long or columns that are not scaled
        lead there.

    Fires:
        Warning when `share` of the rows of training are predicted as one class, while at least
        `others` of the labels are of other ones; or when predictions of numbers have less than
        `spread` of the standard deviation of the labels.

    Stays quiet:
        With fewer than `rows` rows; where nearly all labels are of one class.

    What to do:
        - Scale the columns: `make_pipeline(StandardScaler(), model)`.
        - Lower the penalty (`alpha`), and the learning rate (`learning_rate_init`, `eta0`).
        - Weigh a rare class: `class_weight="balanced"` of `SGDClassifier`.

    Example:
        MLPClassifier(alpha=1000).fit(x, y)
        MLPClassifier(alpha=1e-4).fit(x, y)

    References:
        LeCun, Bottou, Orr, Müller 1998, Efficient BackProp,
        http://yann.lecun.com/exdb/publis/pdf/lecun-98b.pdf
    """

    code = "EST952"
    needs = (Need(facts=(EstimatorFitted,)),)
    explains = ("too_few_passes",)

    share: float = threshold(0.999, unit="of the rows", source="chosen by hand")
    others: float = threshold(0.05, unit="of the labels", source="chosen by hand")
    spread: float = threshold(0.01, unit="of that of the labels", source="chosen by hand")
    rows: int = threshold(50, unit="rows", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge the latest fit of each estimator."""
        latest = {one.fit: one for one in window.seen(EstimatorFitted)}
        judged = [one for one in latest.values() if one.judged >= self.rows]
        if not judged:
            raise NotEnoughData(f"no fit with predictions for {self.rows} rows has ended")
        return [found for one in judged if (found := self._judge(window, one)) is not None][:1]

    def _judge(self, window: Window, one: EstimatorFitted) -> Finding | None:
        words = self._words(one)
        if not words:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.step,
            message=f"{one.estimator} {words}",
            evidence={"rows": one.judged, "fit": one.fit},
            location=one.location,
        )

    def _words(self, one: EstimatorFitted) -> str:
        if one.predicted_counts and one.label_counts:
            top, labels = max(one.predicted_counts), sum(one.label_counts)
            others = 1 - max(one.label_counts) / labels if labels else 0.0
            if top >= self.share * one.judged and others >= self.others:
                number = one.predicted_counts.index(top)
                return (
                    f"predicts class {number} for all of {one.judged} rows of training, of which "
                    f"{others:.0%} are of other classes"
                )
        spread = one.predicted_std
        if spread is not None and one.label_std and spread < self.spread * one.label_std:
            return (
                f"predicts nearly the same for all of {one.judged} rows of training: standard "
                f"deviation {spread:.2g}, of the labels {one.label_std:.2g}"
            )
        return ""
