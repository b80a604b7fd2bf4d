"""LOS406: training continues although the loss no longer improves."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, NormAverages
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.facts.workers import WeightsReturned
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._evaluations import Evaluated, of_new_rows, went_back
from mothtrap.rules._losses import has_players


@frozen
class Overtraining(Rule):
    """Training continues although the loss no longer improves.

    What it detects:
        An evaluation or training loss that has not improved for so many evaluations that further
        improvement is unlikely.

    Why it matters:
        The remaining steps waste compute. Often the model even gets worse: its best weights are
        many epochs old.

    Fires:
        Warning when the evaluation loss has been worse than its best by more than `delta` of it for
        `patience_validation` consecutive evaluations (1/20 of all if there are many), and has lost
        at least `given_back` of what it had gained. Info when the evaluation loss has merely not
        improved by `delta` for that many evaluations, or the training loss for `patience_train`, or
        if the script then loads the weights that it saved before the loss rose (PyTorch).
        With `absolute`, `delta` is a difference of losses. `site` restricts the rule to call sites
        whose label contains these words.

    Stays quiet:
        While both losses improve now and then. Boosting that has converged, as it usually does.
        Losses of a GAN. Evaluations whose loss is not recorded. While the running averages of batch
        norm lag behind.

    What to do:
        - Keep the weights of the best evaluation, and stop a few evaluations after it.
        - If training has stalled, lower the learning rate, for example with a schedule.
        - Use more data, or data augmentation.

    Example:
        for epoch in range(1000): ...             # the best one was the 20th
        if epoch - best_epoch > 10: break

    References:
        Prechelt 1998, Early stopping, but when?, Neural Networks: Tricks of the Trade
    """

    code = "LOS406"
    needs = (
        Need(facts=(Evaluation,)),
        Need(scalars=("loss",), optional=True),
        Need(facts=(BoostingBegan, RowsShared, NormAverages, WeightsReturned), optional=True),
    )
    proof = Proof(title="Evaluation and training loss", scalars=("loss",), reference=("best",))
    passes = True

    patience_train: int = threshold(
        5,
        unit="evaluations",
        source="default of SageMaker Debugger's Overtraining rule, which counts steps",
    )
    patience_validation: int = threshold(
        10, unit="evaluations", source="default of SageMaker Debugger's Overtraining rule"
    )
    delta: float = threshold(
        0.01,
        unit="of the best loss; a difference of losses with `absolute`",
        source="default of SageMaker Debugger's Overtraining rule, which uses a difference",
    )
    absolute: bool = threshold(False, unit="`delta` is a difference", source="chosen by hand")
    given_back: float = threshold(
        0.1,
        unit="of the fall from the first evaluation, or from guessing, to the best",
        source="chosen by hand: small losses near their floor double without harm",
    )
    site: str = threshold("", unit="words in the label of a call site", source="all of them")

    def check(self, window: Window) -> list[Finding]:
        """Check every call site that evaluates a loss."""
        every = [one for one in of_new_rows(window) if self.site in one.last.site]
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        trains = [int(np.isfinite(one.train_E).sum()) for one in every]
        shortest = min(self.patience_validation, self.patience_train if any(trains) else np.inf)
        if not any(
            len(one.value_E) > self.patience_validation or known > self.patience_train
            for one, known in zip(every, trains, strict=True)
        ):
            raise NotEnoughData(f"needs {shortest + 1} evaluations of the same loss")
        found = [finding for one in every if (finding := self._judge(window, one))]
        boosted = {site for one in window.seen(BoostingBegan) for site in one.sites}
        found = [
            finding
            for finding in found
            if finding.severity is not Severity.INFO or finding.evidence["site"] not in boosted
        ]
        return sorted(found, key=lambda finding: (finding.severity.rank, finding.step))[:1]

    def _judge(self, window: Window, one: Evaluated) -> Finding | None:
        since, idle = self._idle(one.value_E)
        train_E = one.train_E[np.isfinite(one.train_E)]
        train_since, train_idle = self._idle(train_E)
        validation_rests = idle >= one.patience(self.patience_validation)
        if not validation_rests and train_idle < one.patience(self.patience_train):
            return None
        worse = validation_rests and self._got_worse(one)
        place = since if validation_rests else train_since + len(one.value_E) - len(train_E)
        if worse:
            better = np.flatnonzero(one.value_E <= one.last.best + self._margin(one.last.best))
            # The best one may have left the window.
            after_best = int(np.searchsorted(one.step_E, one.last.best_step, side="right"))
            place = max([after_best - 1, *better])
        what, rested = ("evaluation", idle) if validation_rests else ("training", train_idle)
        best = one.last.best if validation_rests else float(train_E.min())
        value = float(one.value_E[-1] if validation_rests else train_E[-1])
        onset = int(one.step_E[min(place + 1, len(one.step_E) - 1)])
        back, undone = went_back(window, one, onset)
        return self.finding(
            window,
            severity=Severity.WARNING if worse and not back else Severity.INFO,
            step=onset,
            last_step=int(one.step_E[-1]),
            count=rested,
            mode="eval",
            message=(
                f"the {what} loss has not fallen by {self.delta:g} in {rested} evaluations: it "
                + _change(best, value, rose=worse)
                + back
            ),
            evidence={
                "value": value,
                "best": best,
                "evaluations": rested,
                "site": one.last.site,
                **undone,
            },
            location=one.last.location,
        )

    def _idle(self, value_E: Floats) -> tuple[int, int]:
        """Return the index of the latest improvement by `delta`, and the evaluations since then."""
        best, place = np.inf, 0
        for index, value in enumerate(value_E):
            if value < best - self._margin(float(value)):
                best, place = float(value), index
        return place, max(0, len(value_E) - 1 - place)

    def _margin(self, loss: float) -> float:
        return self.delta if self.absolute else self.delta * abs(loss)

    def _got_worse(self, one: Evaluated) -> bool:
        best, late_E = one.last.best, one.value_E[-int(one.patience(self.patience_validation)) :]
        lost = float(np.median(late_E)) - best
        return bool(
            late_E.min() > best + self._margin(best)
            and lost >= self.given_back * max(one.start - best, 0.0)
        )


def _change(best: float, value: float, *, rose: bool) -> str:
    if f"{best:.3g}" == f"{value:.3g}":
        return f"stayed at {value:.3g}"
    return f"{'rose' if rose else 'went'} from {best:.3g} to {value:.3g}"
