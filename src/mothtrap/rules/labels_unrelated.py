"""DAT511: the model memorizes the training data and never beats guessing in evaluation."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted, PredictionsCompared
from mothtrap.core.facts.evaluations import Evaluation, NormAverages
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._estimators import has_only_begun, has_stood_still
from mothtrap.rules._evaluations import Evaluated, evaluated, settled, trend
from mothtrap.rules._losses import has_players


@frozen
class LabelsUnrelated(Rule):
    """The model memorizes the training data and never beats guessing in evaluation.

    What it detects:
        A training loss that falls far below the loss from guessing, while the evaluation loss is
        never better than one constant guess for every row.

    Why it matters:
        A model that learns its task first becomes a little better than guessing on new data. If
        that never happens, the labels are unrelated to their inputs: usually the inputs or the
        labels were shuffled, sorted, or joined separately.

    Fires:
        Warning when, over at least `evaluations` evaluations of at least `min_rows` rows, the
        best evaluation loss stays above `guess_share` of the loss from guessing, while the
        training loss falls from above `start_share` of it to below `learned_share`. Warning also
        when the two losses drift apart: the training loss falls to `crept_share` or less, and
        since its best value, at least `evaluations` evaluations ago, the evaluation loss rises
        by at least `lost_share` of the fall of the training loss, both with a rank correlation
        with time of at least `drift`. Warning when the predictions of a scikit-learn estimator for
        at least `predicted_rows` evaluation rows agree with their labels no better than chance: the
        agreement is at most `noise` times the agreement that unrelated predictions exceed once in
        1,000 times.

    Stays quiet:
        If any evaluation was better than guessing, as at the start of overfitting. For losses
        whose best guess is unknown: weighted losses, soft targets, absolute errors. If all
        evaluations give exactly the same loss, because they say nothing about training. If the
        training loss was far below guessing before the first evaluation. For GAN losses. While
        the running averages of batch norms lag behind. For networks of scikit-learn that end
        before they are better than guessing on their training rows.

    What to do:
        - PyTorch: Look at some rows: does each label match its input? Shuffle both with the
          same permutation.
        - Keras, JAX: Shuffle inputs and labels with the same permutation: `order =
          np.random.permutation(len(x))`, then `x[order]` and `y[order]`.
        - Check how inputs and labels are joined, sorted and split, for training and for
          evaluation.
        - Check that evaluation preprocesses its inputs like training.

    Example:
        x, y = x[torch.randperm(n)], y[torch.randperm(n)]    # two different orders
        order = torch.randperm(n); x, y = x[order], y[order]

    References:
        Zhang, Bengio, Hardt, Recht, Vinyals 2017, Understanding deep learning requires
        rethinking generalization, https://arxiv.org/abs/1611.03530
    """

    code = "DAT511"
    title = "labels unrelated to the inputs"
    needs = (
        *any_of(Need(facts=(Evaluation,)), Need(facts=(PredictionsCompared,))),
        Need(facts=(EstimatorFitted,), optional=True),
        Need(facts=(NormAverages,), scalars=("loss",), optional=True),
    )
    explains = ("memorized_rows", "overfit", "overtraining", "too_few_passes", "class_imbalance")
    passes = True

    evaluations: int = threshold(5, unit="evaluations", source="chosen by hand")
    min_rows: int = threshold(
        50, unit="rows", source="chosen by hand: with fewer, noise hides the effect"
    )
    guess_share: float = threshold(
        0.98, unit="of the loss from guessing", source="chosen by hand: below it, the model learns"
    )
    start_share: float = threshold(0.7, unit="of the loss from guessing", source="chosen by hand")
    learned_share: float = threshold(
        0.9,
        unit="of the loss from guessing, and of the first training loss",
        source="chosen by hand: memorizing is slow, and means over steps have little noise",
    )
    crept_share: float = threshold(
        0.98,
        unit="of the loss from guessing, and of the first training loss",
        source="chosen by hand",
    )
    drift: float = threshold(
        0.8,
        unit="rank correlation of either loss with time",
        source="chosen by hand: noise stays below it",
    )
    lost_share: float = threshold(
        0.1, unit="of the fall of the training loss", source="chosen by hand"
    )
    predicted_rows: int = threshold(100, unit="rows", source="chosen by hand")
    noise: float = threshold(
        0.65,
        unit="times the agreement that unrelated predictions exceed once in 1,000 times",
        source="2 standard errors, which are 0.65 of the 3.1 that are exceeded once in 1,000 times",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every call site whose best guess is known."""
        compared = [
            one for one in window.seen(PredictionsCompared) if one.rows >= self.predicted_rows
        ]
        found = self._of_estimators(window, compared)
        if found or (compared and not any(window.seen(Evaluation))):
            return found
        every = evaluated(window)
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        known = [one for one in every if one.last.guess]
        if not known:
            raise NotApplicable("the loss from guessing is unknown for every evaluation")
        known = [one for one in known if one.last.rows >= self.min_rows]
        if not known:
            raise NotEnoughData(f"no evaluation has {self.min_rows} rows")
        counting = {
            one.last.site: one
            for one in settled(window, known)
            if len(one.value_E) >= self.evaluations
        }
        known = [one for one in known if one.last.site in counting]
        if not known:
            raise NotEnoughData(f"fewer than {self.evaluations} evaluations were recorded")
        judged, reasons = [], []
        for one in known:
            try:
                judged.append(self._judge(window, one, counting[one.last.site]))
            except NotEnoughData as reason:
                reasons.append(reason)
        if len(reasons) == len(known):
            raise reasons[-1]
        return [finding for finding in judged if finding][:1]

    def _of_estimators(self, window: Window, compared: list[PredictionsCompared]) -> list[Finding]:
        """Check the predictions that a script makes for rows on which it did not train."""
        related = {one.fit for one in compared if not self._is_random(one) and not one.trained}
        related |= {
            one.fit
            for one in compared
            if self._is_related_elsewhere([other for other in compared if _are_folds(one, other)])
        }
        fits = window.seen(EstimatorFitted)
        still = {one.fit for one in fits if has_stood_still(one) or has_only_begun(one)}
        for one in compared:
            if one.fit in still:  # the model has not learned at all (EST951)
                continue
            if one.trained or one.fit in related or one.estimator.startswith("Dummy"):
                continue
            if one.relation is None:  # constant predictions (EST952)
                continue
            return [
                self.finding(
                    window,
                    severity=Severity.WARNING,
                    step=one.step,
                    message=(
                        f"the predictions of {one.estimator} for {one.rows} evaluation rows "
                        f"{self._relation(one)}: {_name(one)} is {one.relation:.2g} (chance: up to "
                        f"±{self.noise * one.chance:.2g})"
                    ),
                    evidence={
                        "value": one.relation,
                        "limit": self.noise * one.chance,
                        "rows": one.rows,
                        "site": one.site,
                    },
                    location=one.location,
                )
            ]
        return []

    def _is_related_elsewhere(self, folds: list[PredictionsCompared]) -> bool:
        """Return whether predictions agree with labels on average over the folds."""
        known = [one for one in folds if one.relation is not None and not one.trained]
        if len(known) < 2:
            return False
        mean = sum(one.relation or 0.0 for one in known) / len(known)
        chance = sum(one.chance for one in known) / len(known)
        return mean > self.noise * chance / math.sqrt(len(known))

    def _relation(self, one: PredictionsCompared) -> str:
        if one.relation is not None and one.relation < -self.noise * one.chance:
            return "contradict their labels"
        return "agree with their labels no better than chance"

    def _is_random(self, one: PredictionsCompared) -> bool:
        return one.relation is None or one.relation <= self.noise * one.chance

    def _judge(self, window: Window, one: Evaluated, counting: Evaluated) -> Finding | None:
        guess = float(one.last.guess or 0.0)
        if one.last.best < self.guess_share * guess:
            return None
        train_E = one.train_E[np.isfinite(one.train_E)]
        if len(train_E) < self.evaluations:
            raise NotEnoughData(f"fewer than {self.evaluations} evaluations follow a training loss")
        if train_E[0] < self.start_share * guess:
            raise NotEnoughData("the model had learned before the first evaluation")
        learned = self.learned_share * min(guess, float(train_E[0]))
        drifting = self._drifts_apart(counting, guess)
        if train_E.min() > learned and not drifting:
            raise NotEnoughData(
                f"neither training nor evaluation is better than guessing ({guess:.3g}): the model "
                "has memorized nothing yet"
            )
        late = float(np.median(train_E[-3:]))
        if late > learned and not drifting:
            return None
        if one.last.first == one.last.best and (one.value_E == one.last.first).all():
            return None  # the evaluated weights do not change (LOS413)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=int(one.step_E[-1]),
            count=one.last.number + 1,
            message=(
                f"the training loss fell to {late:.3g}, but in {one.last.number + 1} evaluations "
                f"the best loss was {one.last.best:.3g}; guessing gives {guess:.3g}"
            ),
            evidence={
                "train": late,
                "best": one.last.best,
                "guess": guess,
                "rows": one.last.rows,
                "site": one.last.site,
            },
            location=one.last.location,
        )

    def _drifts_apart(self, one: Evaluated, guess: float) -> bool:
        """Return whether the training loss falls below guessing while the evaluation loss rises."""
        both_E = np.isfinite(one.train_E)
        train_E, value_E = one.train_E[both_E], one.value_E[both_E]
        if len(train_E) < self.evaluations + 1:
            return False
        late, risen = float(np.median(train_E[-3:])), float(np.median(value_E[-3:]))
        if late > self.crept_share * min(guess, float(train_E[0])) or risen <= guess:
            return False
        best = int(np.argmin(value_E))
        since_E, lost_E = train_E[best:], value_E[best:]
        return (
            len(lost_E) >= self.evaluations
            and risen - float(lost_E[0]) >= self.lost_share * (float(since_E[0]) - late)
            and trend(since_E) <= -self.drift
            and trend(lost_E) >= self.drift
        )


def _are_folds(one: PredictionsCompared, other: PredictionsCompared) -> bool:
    """Return whether two predictions come from one line, as in a cross-validation."""
    return (one.estimator, one.location) == (other.estimator, other.location)


def _name(one: PredictionsCompared) -> str:
    return "Cohen's kappa" if one.label_counts else "the correlation"
