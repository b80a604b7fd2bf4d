"""TRE918: nothing that was learned holds for other rows."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._evaluations import trend
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, with_evaluation


@dataclass(frozen=True)
class NothingLearned(Rule):
    """Nothing that was learned holds for other rows.

    What it detects:
        A training whose evaluation was in no round better than a guess that is the same for every
        row, although the trees have leaves.

    Why it matters:
        Trees always fit something. Where it never helps on other rows, labels do not belong to
        the rows that they stand beside: they were shuffled, sorted or joined by themselves; or
        the columns say nothing of them.

    Fires:
        Warning when, over at least `rounds` rounds and at least `rows` rows of evaluation, the
        best loss of an evaluation stayed above `share` of that of guessing.

    Stays quiet:
        Where the loss of guessing is not known (ranking, weights, metrics of your own); with
        trees of one leaf; where evaluation was better than guessing at any time, or gets better
        from round to round (rank correlation below -`falling`).

    What to do:
        - Look at some rows: does each label belong to its columns? Shuffle and sort both
          together.
        - Check that training and evaluation rows are prepared by the same code.

    Example:
        rng.shuffle(y)                                  # and not x
        order = rng.permutation(len(x)); x, y = x[order], y[order]

    References:
        Ojala and Garriga 2010, Permutation tests for studying classifier performance, JMLR 11
    """

    code = "TRE918"
    needs = (Need(facts=(BoostingBegan, Evaluation)), OF_BOOSTED)
    explains = (
        "overfit",
        "overtraining",
        "stopped_too_late",
        "labels_unrelated",
        "leaf_explosion",
        "class_imbalance",
        "unscaled_weights",
    )
    passes = True
    rounds: int = threshold(10, unit="rounds", source="chosen by hand")
    rows: int = threshold(100, unit="rows of evaluation", source="chosen by hand")
    falling: float = threshold(0.9, unit="rank correlation with time", source="chosen by hand")
    share: float = threshold(0.99, unit="of the loss of guessing", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every training of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        judged = with_evaluation(one)
        last = judged.last
        if not last.guess:
            raise NotApplicable("the loss of guessing is not known")
        if last.rows < self.rows or last.number + 1 < self.rounds:
            raise NotEnoughData(f"{self.rounds} rounds and {self.rows} rows are needed")
        table = one.tables.get("")
        grows = any(tree.leaves > 1 for tree in one.trees)
        small = one.began.learning_rate is not None and one.began.learning_rate * last.number < 1
        falls = trend(judged.value_E) < -self.falling  # slowly, but it learns
        if last.best <= self.share * last.guess or not grows or small or falls:
            return None
        if table is not None and table.weighted:
            raise NotApplicable("rows or classes are weighted")
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            last_step=last.step,
            count=last.number + 1,
            mode="eval",
            message=(
                f"in {last.number + 1} rounds {last.operation} of {last.site} was never below "
                f"{last.best:.4g}; guessing gives {last.guess:.4g}"
            ),
            evidence={
                "value": last.best,
                "limit": self.share * last.guess,
                "guess": last.guess,
                "site": last.site,
                "fit": one.began.fit,
            },
            location=one.began.location,
        )
