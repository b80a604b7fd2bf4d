"""BEH305: the mean of this model and another one is clearly better."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.confirm import mean_above
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion
from mothtrap.behavior.sklearn.simple_models import NAMES, simple_answers
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

KINDS = ("linear", "boosting")


@frozen
class EnsembleHelps(Probe):
    """The mean of this model and another one makes clearly smaller errors than either of them.

    What it detects:
        A mean of the model's outputs and the outputs of a linear model, or of gradient boosting,
        that has a lower loss than both.

    Why it matters:
        The two models make different errors: each has learned something that the other has not.

    Fires:
        When, in the confirming half, the loss of the mean is at least 5 % below the loss of either
        model, and the paired difference is significant.

    Stays quiet:
        Models that return only labels.

    What to do:
        - Average the outputs of both models if you can afford two models.
        - Look at the rows in which they differ: one of the models lacks a feature or an
          interaction.

    References:
        Dietterich, Ensemble methods in machine learning, 2000.
    """

    code = "BEH305"
    severity = Severity.INFO
    cost = 3

    least_gain: float = threshold(0.05, unit="share of the loss", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare the mean of two models with each of them."""
        judged = subject.judged
        if judged.reading.form == "labels":
            raise NotApplicable("the model returns labels, not probabilities")
        found = {}
        for kind in KINDS:
            other = simple_answers(subject, kind)
            losses = [
                Judged(
                    judged.table,
                    judged.target_R,
                    scores,
                    judged.reading,
                    judged.rows_R,
                    subject.options.loss,
                ).loss_R
                for scores in (other, (judged.scores + other) / 2)
            ]
            found[kind] = losses
        propose_R, confirm_R = subject.propose_R, subject.confirm_R
        best = min(KINDS, key=lambda kind: float(found[kind][1][propose_R].mean()))
        other_R, both_R = (each[confirm_R] for each in found[best])
        own_R = judged.loss_R[confirm_R]
        better = min(own_R.mean(), other_R.mean())
        if both_R.mean() > (1 - self.least_gain) * better:
            yield REFUTED
            return
        p = max(mean_above(own_R - both_R)[0], mean_above(other_R - both_R)[0])
        yield Suspicion(
            message=f"the mean of the model and {NAMES[best]} has a loss of {both_R.mean():.3g}; "
            f"the loss of the model is {own_R.mean():.3g}, of the other {other_R.mean():.3g}",
            p=p,
            evidence={
                "n": len(own_R),
                "value": float(own_R.mean()),
                "reference": float(both_R.mean()),
                "model": best,
            },
        )
