"""BEH301: a simple model is better than this model."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.confirm import mean_above
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion, measured
from mothtrap.behavior.sklearn.simple_models import NAMES, simple_judged
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class BeatenBySimple(Probe):
    """A simple model with default settings makes smaller errors.

    What it detects:
        A simple model with a lower loss: a constant prediction, a linear model, a tree of depth 5,
        or gradient boosting. They are fitted to the training rows, or in folds to the
        held-out rows. The best of them is compared with the model in all held-out rows.

    Why it matters:
        The model was trained badly, or its inputs are prepared differently than in training.

    Fires:
        When the loss of the simple model is at least 5 % lower, its error rate is not higher, and
        the paired difference is significant. The p-value is multiplied by the number of simple
        models. Error if a constant prediction is better. A note if the p-value is above 0.001,
        because a simple model that is fitted to more rows is often a little better.

    Stays quiet:
        Differences below 5 % of the loss.

    What to do:
        - Check that the rows are prepared as in training: scaling, order of columns, encoding.
        - Look at the training run for a learning rate that is too high and for overfitting.
        - Use the simple model.

    References:
        Dacrema et al., Are we really making much progress?, 2019.
    """

    code = "BEH301"
    severity = Severity.WARNING
    explains = ("miscalibrated", "no_gain", "ensemble_helps")
    cost = 3

    least_gain: float = threshold(0.05, unit="share of the loss", source="chosen by hand")
    sure: float = threshold(
        1e-3, unit="p-value", source="measured: 0.005 for the same model with a quarter more rows"
    )

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare with each simple model."""
        judged, others = subject.judged, {k: simple_judged(subject, k) for k in NAMES}
        if self._is_better(judged, others["constant"]) is not None:
            best = "constant"
        else:
            best = min(others, key=lambda k: float(others[k].loss_R.mean()))
        p = self._is_better(judged, others[best])
        if p is None:
            yield REFUTED
            return
        own, other = float(judged.loss_R.mean()), float(others[best].loss_R.mean())
        yield Suspicion(
            message=f"{NAMES[best]} is better: its loss is {measured(other)}, "
            f"the loss of the model is {measured(own)}",
            p=p,
            severity=self._severity(best, p),
            evidence={"n": len(judged), "value": own, "reference": other, "model": best},
        )

    def _severity(self, best: str, p: float) -> Severity:
        if best == "constant":
            return Severity.ERROR
        return Severity.WARNING if p < self.sure else Severity.INFO

    def _is_better(self, judged: Judged, other: Judged) -> float | None:
        """Return the p-value of another model being better; None if it is not clearly better.

        The best of several models is chosen in the same rows, so the p-value counts all of them.
        """
        gain_R = judged.loss_R - other.loss_R
        if gain_R.mean() < self.least_gain * judged.loss_R.mean():
            return None
        if judged.are_errors_counted and other.wrong_R.mean() > judged.wrong_R.mean():
            return None
        p = len(NAMES) * mean_above(gain_R)[0]
        return p if p < 0.05 else None
