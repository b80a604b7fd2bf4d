"""TRE916: the columns of an evaluation are prepared otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trees import BoostingBegan, TablesDiffer
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@dataclass(frozen=True)
class EvalTableDiffers(Rule):
    """The columns of an evaluation are prepared otherwise.

    What it detects:
        Columns of an evaluation whose values lie far from those of training, that stand in
        another order, or that have lost their variation.

    Why it matters:
        Trees split by value. Where the evaluation is scaled, encoded or ordered otherwise, rows
        fall into leaves that were made for others, and the score is about the preparation.

    Fires:
        Warning when the mean of a column is more than 3 standard deviations of training away or
        its spread ten times another, when at least two columns are each distributed like another
        one of training, or when a column that varies in training has one value.

    Stays quiet:
        Columns that number the rows; tables with fewer than 100 rows; smaller drift.

    What to do:
        - Prepare both tables by the same function, fitted on the training rows: `Pipeline`,
          `ColumnTransformer`.
        - Select columns by name and in one order: `valid[train.columns]`.

    Example:
        train, valid = scaler.fit_transform(train), valid
        train, valid = scaler.fit_transform(train), scaler.transform(valid)

    References:
        Sculley et al. 2015, Hidden technical debt in machine learning systems, NeurIPS
    """

    code = "TRE916"
    needs = (Need(facts=(BoostingBegan, TablesDiffer)), OF_BOOSTED)
    explains = (
        "train_eval_shift",
        "overfit",
        "stopped_too_late",
        "overtraining",
        "nothing_learned",
        "labels_unrelated",
        "leaf_explosion",
        "boosting_rate_too_high",
    )

    def check(self, window: Window) -> list[Finding]:
        """Judge every training of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        if not one.held_out:
            raise NotApplicable("no evals: no data were passed that are not trained on")
        for site in one.held_out:
            seen = one.differences.get(site)
            if seen is None:
                continue
            columns, words = self._words(seen)
            return self.finding(
                window,
                severity=Severity.WARNING,
                step=one.began.step,
                layers=columns[:1],
                mode="eval",
                message=f"of {seen.columns} columns of {site} {words}",
                evidence={
                    "value": len(columns),
                    "site": site,
                    "columns": ", ".join(columns),
                    "fit": one.began.fit,
                },
                location=one.began.location,
            )
        return None

    def _words(self, seen: TablesDiffer) -> tuple[tuple[str, ...], str]:
        if seen.order:
            here, there = seen.order[0]
            return (
                tuple(name for name, _ in seen.order),
                f"{len(seen.order)} are in another order than in training: {here} has the values "
                f"of {there}",
            )
        if seen.distance:
            name = next(iter(seen.distance))
            return (
                tuple(seen.distance),
                f"{len(seen.distance)} are distributed otherwise than in training: the mean of "
                f"{name} is {seen.distance[name]:.3g} standard deviations away",
            )
        return seen.constant, f"{len(seen.constant)} have one value, but not in training"
