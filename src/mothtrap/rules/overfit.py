"""LOS405: validation gets worse while training gets better."""

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
from mothtrap.core.window import Bools, Window
from mothtrap.rules._evaluations import Evaluated, of_new_rows, went_back
from mothtrap.rules._losses import has_players


@frozen
class Overfit(Rule):
    """Validation gets worse while training gets better.

    What it detects:
        An evaluation loss that is above the training loss and has risen above its own best, while
        the training loss keeps falling.

    Why it matters:
        The model memorizes its examples, including their noise. Its predictions on new data are
        worse than they were some epochs ago.

    Fires:
        Warning when, in `patience` consecutive evaluations (1/20 of all if there are many) and not
        before step `start_step`, the evaluation loss exceeds the mean training loss since the
        previous evaluation by more than `ratio` of that mean, is `rise` above its best, and has
        lost at least `given_back` of all that it had gained. With `while_improving`, exceeding
        `ratio` is enough, even if the evaluation loss falls. A note if the script then loads the
        weights that it saved before the loss rose (PyTorch). `site` restricts the rule to call
        sites whose label contains these words.

    Stays quiet:
        While the evaluation loss falls or stays near its best. A small loss near its minimum that
        doubles, because this is little compared with its total fall. A training loss above the
        evaluation loss (dropout, augmentation). Losses of a GAN. Evaluations whose loss is not
        recorded, such
        as an accuracy or a loss written by hand. Evaluations on training rows. While the running
        averages of batch norm lag behind.

    What to do:
        - Stop at the best evaluation, or go back to the weights saved at that point.
        - Use more data, or data augmentation.
        - Make the model smaller, or add dropout or weight decay.

    Example:
        model = mlp([10, 256, 256, 1])            # 70 000 weights for 80 rows
        model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))

    References:
        Prechelt 1998, Early stopping, but when?, Neural Networks: Tricks of the Trade
    """

    code = "LOS405"
    title = "overfitting"
    needs = (
        Need(facts=(Evaluation,)),
        Need(scalars=("loss",), optional=True),
        Need(facts=(BoostingBegan, RowsShared, NormAverages, WeightsReturned), optional=True),
    )
    proof = Proof(title="Evaluation and training loss", scalars=("loss",), reference=("best",))
    explains = ("overtraining",)
    passes = True

    patience: int = threshold(3, unit="consecutive evaluations", source="chosen by hand")
    ratio: float = threshold(
        0.1, unit="of the training loss", source="default of SageMaker Debugger's Overfit rule"
    )
    start_step: int = threshold(0, unit="steps", source="chosen by hand: from the beginning")
    rise: float = threshold(0.1, unit="of the best evaluation loss", source="chosen by hand")
    given_back: float = threshold(
        0.1,
        unit="of the fall from the first loss, or from guessing, to the best",
        source="chosen by hand: small losses near their floor double without harm",
    )
    while_improving: bool = threshold(
        False, unit="also while evaluation improves", source="chosen by hand"
    )
    site: str = threshold("", unit="words in the label of a call site", source="all of them")

    def check(self, window: Window) -> list[Finding]:
        """Check every call site that evaluates a loss."""
        every = [one for one in of_new_rows(window) if self.site in one.last.site]
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        if not any(len(one.value_E) > self.patience for one in every):
            raise NotEnoughData(f"needs {self.patience + 1} evaluations of the same loss")
        if not any(np.isfinite(one.train_E).any() for one in every):
            raise NotEnoughData("no training loss was recorded for the evaluation loss")
        found = [finding for one in every if (finding := self._judge(window, one))]
        return sorted(found, key=lambda finding: finding.step)[:1]

    def _judge(self, window: Window, one: Evaluated) -> Finding | None:
        with np.errstate(divide="ignore", invalid="ignore"):
            gap_E = (one.value_E - one.train_E) / np.abs(one.train_E)
        over_E = (gap_E > self.ratio) & (one.step_E >= self.start_step)
        if not self.while_improving:
            over_E &= self._has_risen(one)
        running = _running(over_E)
        if running < one.patience(self.patience):
            return None
        best, last = one.last.best, float(one.value_E[-1])
        # What is seen once it is under way began after the best evaluation.
        first = len(over_E) - running
        after_best = int(np.searchsorted(one.step_E, one.last.best_step, side="right"))
        if not self.while_improving and one.step_E[0] <= one.last.best_step:
            first = min(first, after_best)
        back, undone = went_back(window, one, int(one.step_E[first]))
        return self.finding(
            window,
            severity=Severity.INFO if back else Severity.WARNING,
            step=int(one.step_E[first]),
            last_step=int(one.step_E[-1]),
            count=running,
            mode="eval",
            message=(
                f"the evaluation loss is {last:.3g} (best: {best:.3g} at step "
                f"{one.last.best_step}), and the training loss is {one.train_E[-1]:.3g}: worse in "
                f"{running} consecutive evaluations (limit {self.patience}){back}"
            ),
            fixes=self.fixes(window)[1:] if back else self.fixes(window),
            evidence={
                "value": last,
                "best": best,
                "best_step": one.last.best_step,
                "train": float(one.train_E[-1]),
                "gap": float(gap_E[-1]),
                "limit": self.ratio,
                "site": one.last.site,
                **undone,
            },
            location=one.last.location,
        )

    def _has_risen(self, one: Evaluated) -> Bools:
        """Return the evaluations above the best evaluation while the training loss is lower."""
        best, value_E, train_E = one.last.best, one.value_E, one.train_E
        begin = one.start
        if one.last.guess is None:  # the first epoch may have learned nearly all
            begin = max(begin, train_E[np.isfinite(train_E)][:1].max(initial=begin))
        gained = max(begin - best, 0.0)
        risen_E: Bools = (value_E > best + self.rise * abs(best)) & (
            value_E - best >= self.given_back * gained
        )
        at_best = int(np.argmin(value_E))
        risen_E[: at_best + 1] = False
        if np.isfinite(train_E[at_best]):
            risen_E &= train_E < train_E[at_best]
        return risen_E


def _running(over_E: Bools) -> int:
    """Return the number of latest consecutive evaluations that are over."""
    within = np.flatnonzero(~over_E)
    return len(over_E) - (int(within[-1]) + 1 if len(within) else 0)
