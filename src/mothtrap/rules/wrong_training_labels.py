"""DAT527: a share of the training labels is wrong."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, NormAverages, TrainingMode
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Window
from mothtrap.rules._confusions import confusion
from mothtrap.rules._effects import CONFUSED
from mothtrap.rules._evaluations import Evaluated, of_new_rows
from mothtrap.rules._loss_calls import class_calls, is_classifier
from mothtrap.rules._losses import has_players
from mothtrap.rules._stretches import stretches


@frozen
class WrongTrainingLabels(Rule):
    """A share of the training labels is wrong.

    What it detects:
        A classifier that confidently contradicts training labels, and does better on new rows than
        on the rows that it trains on.

    Why it matters:
        The model spends its steps on wrong labels, is less sure of correct labels, and eventually
        memorizes the wrong labels.

    Fires:
        Warning when three things are true over at least `evaluations` consecutive evaluations. The
        training loss is more than `ratio` times the evaluation losses before and after it. Each
        evaluation loss is at least `steady` of the previous one. And the model contradicts labels
        even where it is most confident: of the `samples` labels or more in between, it contradicts
        at least `wrong_share` of the labels (and `least_wrong`) in the surest quarter of the rows
        of each batch, and at least `sure_ratio` times the share in all rows.

    Stays quiet:
        For labels that are as unreliable in evaluation as in training. Without an evaluation loss.
        For models that are only unsure in training (dropout, augmentation), because they are right
        where they are most confident. For dropout of `dropout` or more, class weights,
        soft targets, several loss terms (mixup), tokens, more than 20 classes, and competing losses
        (GAN). If a model memorizes the wrong labels before the first evaluations.

    What to do:
        - List the doubtful rows with `mothtrap check` (PRE306), and correct or drop them.
        - Compare the sources of the training labels and of the evaluation labels: class numbers,
          joins, annotators.
        - Until then, stop early: the longer the training, the more wrong labels are memorized.

    Example:
        wrong = torch.rand(len(y)) < 0.2
        y[wrong] = torch.randint(0, 10, (int(wrong.sum()),))

    References:
        Northcutt, Jiang, Chuang 2021, Confident learning, https://arxiv.org/abs/1911.00068
    """

    code = "DAT527"
    needs = (
        Need(facts=(Evaluation, LossCall)),
        Need(facts=(BoostingBegan, RowsShared, NormAverages, TrainingMode), optional=True),
        Need(scalars=("loss",), optional=True),
    )
    passes = True
    explains = (*CONFUSED, "loss_not_decreasing", "loss_oscillating", "overfit", "overtraining")

    evaluations: int = threshold(3, unit="consecutive evaluations", source="chosen by hand")
    ratio: float = threshold(
        1.3,
        unit="times the evaluation loss",
        source="chosen by hand: a training set is harder by chance, but not by a third",
    )
    steady: float = threshold(
        0.8,
        unit="of the previous evaluation loss",
        source="chosen by hand: a model that is still learning is often wrong where it is sure",
    )
    samples: int = threshold(
        100, unit="labels", source="chosen by hand: 25 of them are in the surest quarters"
    )
    least_wrong: int = threshold(5, unit="labels of the surest quarters", source="as in PRE306")
    wrong_share: float = threshold(
        0.05, unit="of the surest quarter of the rows", source="chosen by hand"
    )
    sure_ratio: float = threshold(
        0.6,
        unit="times the share of all rows",
        source="measured: 0.65 and more with wrong labels, 0.57 in adversarial training, and below "
        "0.2 with dropout, noisy rows, and erased or mixed rows",
    )
    dropout: float = threshold(
        0.5,
        unit="of the values",
        source="measured: with 0.65 a network learned so slowly that a fifth of its surest "
        "predictions were wrong for 6 epochs",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the training loss with the loss of every evaluation of new rows."""
        calls = [call for call in class_calls(window) if _is_plain(call)]
        if not calls:
            raise NotApplicable("no plain class loss with at most 20 classes was recorded")
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        rates = [one.rate for mode in window.seen(TrainingMode) for one in mode.rates]
        if max(rates, default=0.0) >= self.dropout:
            raise NotApplicable("dropout drops many values in training")
        of_classes = {one.site for one in window.seen(Evaluation) if one.label_counts is not None}
        every = [one for one in of_new_rows(window) if one.last.site in of_classes]
        if not any(len(one.value_E) > self.evaluations for one in every):
            raise NotEnoughData(f"needs {self.evaluations + 1} evaluations of a class loss")
        found = (self._judge(window, one, calls) for one in every)
        return [finding for finding in found if finding is not None][:1]

    def _judge(self, window: Window, one: Evaluated, calls: list[LossCall]) -> Finding | None:
        long = [
            (begin, end)
            for begin, end in stretches(self._is_above(one))
            if end - begin >= self.evaluations
        ]
        if not long:
            return None
        begin, end = max(long, key=lambda pair: pair[1] - pair[0])
        # Evaluation E + 1 follows the training between evaluations E and E + 1.
        first, last = int(one.step_E[begin]), int(one.step_E[end])
        between = [call for call in calls if first <= call.step < last]
        shares = self._wrong(between)
        if shares is None:
            return None
        every, surest = shares
        train, value = (
            float(np.median(a[begin + 1 : end + 1])) for a in (one.train_E, one.value_E)
        )
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=between[0].step,
            last_step=last,
            count=end - begin,
            message=(
                f"the model contradicts {every:.0%} of the training labels, and {surest:.0%} in "
                "the quarter of the rows where it is most confident, but it does better on new "
                f"rows: the training loss is {train:.3g}, the evaluation loss {value:.3g}"
            ),
            evidence={
                "contradicted": every,
                "contradicted_surest": surest,
                "limit": self.sure_ratio * every,
                "train": train,
                "value": value,
                "site": one.last.site,
            },
            location=between[0].location,
        )

    def _is_above(self, one: Evaluated) -> Bools:
        """Return, for each pair of steady evaluations, whether training in between is worse."""
        before_E, after_E = one.value_E[:-1], one.value_E[1:]
        with np.errstate(invalid="ignore"):
            above_E = one.train_E[1:] > self.ratio * np.maximum(before_E, after_E)
        is_steady_E: Bools = after_E >= self.steady * before_E
        return above_E & is_steady_E

    def _wrong(self, calls: list[LossCall]) -> tuple[float, float] | None:
        """Return the contradicted shares of all and of the surest rows, if labels are wrong."""
        table_KK = confusion(calls)
        pairs = [c.targets.surest for c in calls if c.targets is not None and c.targets.surest]
        if table_KK is None or table_KK.sum() < self.samples or not pairs:
            return None
        count, wrong = np.sum(pairs, axis=0).tolist()
        every, surest = 1 - float(np.trace(table_KK) / table_KK.sum()), wrong / count
        least = max(self.wrong_share, self.sure_ratio * every)
        return (every, surest) if surest >= least and wrong >= self.least_wrong else None


def _is_plain(call: LossCall) -> bool:
    """Return whether a call is the whole loss of a classifier, without weights of classes."""
    sample = call.targets
    if sample is None or sample.surest is None or sample.weighted:
        return False
    return is_classifier(call) and call.alone is not False
