"""EST952: a fitted estimator predicts the same value for every row."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class ConstantPrediction(Rule):
    """A fitted estimator predicts the same value for every row.

    What it detects:
        A classifier that predicts one class for all training rows, or a regressor whose
        predictions hardly differ.

    Why it matters:
        Its accuracy equals the share of the most frequent class, which can look good. Usual causes
        are dead units, a strong penalty, a high learning rate, or unscaled columns.

    Fires:
        Warning when `share` of the training rows are predicted as one class although at least
        `others` of the labels belong to other classes. Warning when numeric predictions have less
        than `spread` of the standard deviation of the labels.

    Stays quiet:
        With fewer than `rows` rows, or if nearly all labels are one class.

    What to do:
        - Scale the columns: `make_pipeline(StandardScaler(), model)`.
        - Lower the penalty (`alpha`) and the learning rate (`learning_rate_init`, `eta0`).
        - Weight a rare class: `class_weight="balanced"` of `SGDClassifier`.

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
    spread: float = threshold(
        0.01, unit="of the standard deviation of the labels", source="chosen by hand"
    )
    rows: int = threshold(50, unit="rows", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the latest fit of each estimator."""
        latest = {one.fit: one for one in window.seen(EstimatorFitted)}
        judged = [one for one in latest.values() if one.judged >= self.rows]
        if not judged:
            raise NotEnoughData(f"no finished fit has predictions for {self.rows} rows")
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
                    f"predicts class {number} for all {one.judged} training rows, although "
                    f"{others:.0%} of them belong to other classes"
                )
        spread = one.predicted_std
        if spread is not None and one.label_std and spread < self.spread * one.label_std:
            return (
                f"predicts nearly the same value for all {one.judged} training rows: standard "
                f"deviation {spread:.2g}, labels {one.label_std:.2g}"
            )
        return ""
