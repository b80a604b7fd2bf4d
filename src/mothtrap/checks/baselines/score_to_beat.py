"""PRE401: the scores of simple models, which the script's model should beat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.sklearn import simple_models
from mothtrap.checks.subject import Array, Rows, Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class ScoreToBeat(Check):
    """Simple models learn nothing from the data.

    What it detects:
        Data from which no simple model learns anything. The check fits three scikit-learn models: a
        constant guess (dummy), a linear model, and gradient boosting. Their scores are the scores
        to beat: accuracy for classes, R2 for numbers.

    Why it matters:
        A network that is worse than a linear model has a fault, or is not needed. If no simple
        model is better than a constant guess, rows and targets may not belong together.

    Fires:
        A note when neither the linear model nor gradient boosting is `errors` standard errors
        better than a constant guess.

    Stays quiet:
        Without scikit-learn; inputs that are neither a table nor images; fewer than `least_rows`
        rows to fit or `least_held_out` to score. The models are fitted to at most `most_rows` rows,
        and gradient boosting only if rows x columns x classes stay below `most_work`. Without an
        evaluation dataset, a fifth of the training rows is held out.

    What to do:
        - Compare the score of your run with these scores.
        - If no model learns, check that rows and targets are in the same order.

    Example:
        y = y[torch.randperm(len(y))]   # x keeps its order

    References:
        http://karpathy.github.io/2019/04/25/recipe/
        https://scikit-learn.org/stable/modules/model_evaluation.html#dummy-estimators
    """

    code = "PRE401"
    title = "simple models learn nothing"
    uses = ("datasets",)
    passed = "scores to beat"
    costs = 5
    explains = ("stuck_at_chance", "nothing_learned", "labels_unrelated")
    errors: float = threshold(
        2.5, unit="standard errors", source="the usual 5 % level, for the better of two models"
    )
    least_rows: int = threshold(100, unit="training rows", source="chosen by hand")
    least_held_out: int = threshold(50, unit="evaluation rows", source="chosen by hand")
    most_rows: int = threshold(5000, unit="rows", source="chosen by hand: takes a few seconds")
    most_work: float = threshold(
        1e6, unit="rows x columns x classes", source="measured: about 5 s on one core"
    )

    def run(self, subject: Subject) -> Iterable[Found]:
        """Fit simple models to the training data, and score them on the evaluation data."""
        with simple_models.one_thread():
            train = tables.training_set(subject)
            ours = tables.read(train, subject, self.most_rows)
            theirs = self._evaluation(subject, ours)
            task, y = _target(ours, subject)
            x = tables.features(ours)
            held = tables.features(theirs), _target(theirs, subject)[1]
            if theirs is ours:
                cut = len(x) * 4 // 5
                held, x, y = (x[cut:], y[cut:]), x[:cut], y[:cut]
            if len(x) < self.least_rows or len(held[0]) < self.least_held_out:
                raise NotEnoughData(
                    f"needs {self.least_rows} training rows and {self.least_held_out} evaluation "
                    f"rows, but read {len(x)} and {len(held[0])}"
                )
            self._check_columns(x, held[0])
            scores = self._scores(task, (x, y), held, subject)
        rows, guess = len(held[0]), scores["dummy"]
        if task == "classes":
            guess = max(guess, _by_chance(y))
        best = max(score for name, score in scores.items() if name != "dummy")
        kind = "accuracy" if task == "classes" else "R2"
        for name, score in scores.items():
            subject.figures[f"{name} {kind}"] = score
        subject.figures["rows of training"] = len(x)
        subject.figures["rows of evaluation"] = rows
        noise = np.sqrt(guess * (1 - guess) / rows) if task == "classes" else 1 / np.sqrt(rows)
        if best > guess + self.errors * noise or guess > 1 - 1 / rows:
            return
        yield Found(
            step=0,
            severity="info",
            message=f"no simple model learns from {len(x)} training rows: the best {kind} on "
            f"{rows} held-out rows is {best:.3f}, and a constant guess gets {guess:.3f}",
            location=train.location,
            evidence={"best": best, "guess": guess},
        )

    def _evaluation(self, subject: Subject, ours: Rows) -> Rows:
        """Return rows of the largest evaluation that has targets, or rows of the training data."""
        others = sorted(subject.of("evaluation"), key=lambda one: -(one.size or 0))
        for other in others:
            rows = tables.read(other, subject, self.most_rows)
            if rows.targets is not None and len(rows.indices) >= self.least_held_out:
                return rows
        return ours

    def _check_columns(self, x: Array, held_out: Array) -> None:
        if x.shape[1] != held_out.shape[1]:
            raise NotApplicable("training and evaluation samples differ in shape")

    def _scores(
        self,
        task: Literal["classes", "numbers"],
        fitted: tuple[Array, Array],
        held_out: tuple[Array, Array],
        subject: Subject,
    ) -> dict[str, float]:
        """Return the score of each model, as scikit-learn computes it."""
        x, y = fitted
        work = x.size * (len(np.unique(y)) if task == "classes" else 1)
        scores = {}
        for name in simple_models.NAMES:
            boosting = name == "gradient boosting"
            if boosting and (work > self.most_work or subject.left_s < 1):
                continue
            model = simple_models.simple_model(name, task).fit(x, y)
            scores[name] = float(model.score(*held_out))
        return scores


def _target(rows: Rows, subject: Subject) -> tuple[Literal["classes", "numbers"], Array]:
    """Return the kind of task, and the target of each row.

    Raises:
        NotApplicable: the targets are neither class numbers nor numbers.
    """
    if subject.task != "numbers":
        return "classes", tables.classes(rows.targets, subject)
    return "numbers", tables.numbers(rows.targets, subject)


def _by_chance(labels: Array) -> float:
    """Return the accuracy of guesses that are as frequent as the classes."""
    counts = np.unique(labels, return_counts=True)[1]
    return float(((counts / counts.sum()) ** 2).sum())
