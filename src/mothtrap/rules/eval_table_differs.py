"""TRE916: the evaluation table is preprocessed differently from the training table."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trees import BoostingBegan, TablesDiffer
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class EvalTableDiffers(Rule):
    """The evaluation table is preprocessed differently from the training table.

    What it detects:
        Columns of an evaluation table whose values are far from the training values, that are in
        a different order, or that are constant.

    Why it matters:
        Trees split by value. If the evaluation table is scaled, encoded or ordered differently,
        rows reach the wrong leaves, and the score measures the preprocessing, not the model.

    Fires:
        Warning when the mean of a column is more than 3 training standard deviations away, or its
        spread differs by a factor of ten. Warning when at least two columns are each distributed
        like a different training column. Warning when a column that varies in training is
        constant.

    Stays quiet:
        For row numbers, for tables with fewer than 100 rows, and for smaller drift.

    What to do:
        - Preprocess both tables with the same function, fitted on the training rows: `Pipeline`,
          `ColumnTransformer`.
        - Select columns by name and in one order: `valid[train.columns]`.

    Example:
        train, valid = scaler.fit_transform(train), valid
        train, valid = scaler.fit_transform(train), scaler.transform(valid)

    References:
        Sculley et al. 2015, Hidden technical debt in machine learning systems, NeurIPS
    """

    code = "TRE916"
    title = "evaluation table differs"
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
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        if not one.held_out:
            raise NotApplicable("no evals were passed")
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
                f"{len(seen.order)} are in a different order than in training: {here} has the "
                f"values of {there}",
            )
        if seen.distance:
            name = next(iter(seen.distance))
            return (
                tuple(seen.distance),
                f"{len(seen.distance)} are distributed differently than in training: the mean of "
                f"{name} is {seen.distance[name]:.3g} standard deviations away",
            )
        return seen.constant, f"{len(seen.constant)} are constant, but vary in training"
