"""PRE403: the score of a person, which the script's model should reach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.sample_texts import in_characters, in_words, picture_of
from mothtrap.checks.subject import Array, DataSet, Rows, Subject
from mothtrap.core.asked_samples import Asked, AskedSample, Metric
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.png import encode
from mothtrap.core.thresholds import threshold


@frozen
class PersonToBeat(Check):
    """A person predicts the same samples as the model.

    What it detects:
        Nothing: it measures the score of a person. `mothtrap check --human 20` shows 20 samples
        without their labels, asks for each one, and computes the score of the answers.

    Why it matters:
        If a person cannot predict the labels either, the inputs may lack what is needed, or the
        labels may be wrong. If a person is much better than the model, more can be learned.

    Fires:
        Never. The score is shown with the scores of simple models, also after the run.

    Stays quiet:
        Without `--human`; targets that are neither classes nor numbers. The samples are drawn from
        at most `most_rows` rows.

    What to do:
        - Look at the samples that you got wrong: are their labels right?

    Example:
        mothtrap check --human 20 train.py

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE403"
    title = "the score of a person"
    uses = ("datasets",)
    passed = "samples for a person were drawn"
    costs = 1
    most_rows: int = threshold(2000, unit="rows", source="chosen by hand: enough for all classes")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Draw samples of the evaluation data or, without evaluation data, of the training data."""
        if not subject.asks:
            raise NotApplicable("no --human was given")
        dataset, rows = self._rows(subject)
        metric, targets = _targets(rows, subject)
        count = min(subject.asks, len(targets))
        picked = np.random.default_rng(0).permutation(len(targets))[:count].tolist()
        names = dict(enumerate(dataset.classes))
        subject.asked.append(
            Asked(
                dataset=dataset.name,
                role=dataset.role,
                metric=metric,
                answers=_answers(metric, targets, names),
                samples=tuple(_sample(rows, place, targets[place], names) for place in picked),
            )
        )
        subject.figures["samples"] = count
        return ()

    def _rows(self, subject: Subject) -> tuple[DataSet, Rows]:
        """Return a dataset, and rows of it that have targets."""
        sets = (*subject.of("evaluation"), *subject.of("train"))
        for one in sorted(sets, key=lambda one: (one.role == "train", -(one.size or 0))):
            rows = tables.read(one, subject, self.most_rows)
            if rows.targets is not None and len(rows.indices):
                return one, rows
        raise NotEnoughData("no dataset with targets was recorded")


def _targets(rows: Rows, subject: Subject) -> tuple[Metric, Array]:
    """Return the metric, and the target of each row; raises as `tables`."""
    if subject.task != "numbers":
        return "accuracy", tables.classes(rows.targets, subject)
    return "R2", tables.numbers(rows.targets, subject)


def _answers(metric: Metric, targets: Array, names: dict[int, str]) -> tuple[str, ...]:
    if metric == "R2":
        return tuple(f"{limit:.4g}" for limit in (targets.min(), targets.max()))
    return tuple(names.get(int(one), str(one)) for one in np.unique(targets))


def _sample(rows: Rows, place: int, target: Any, names: dict[int, str]) -> AskedSample:
    parts = [np.asarray(array[place]) for array in rows.inputs]
    image = picture_of(parts)
    is_class = isinstance(target, int | np.integer)
    return AskedSample(
        index=rows.indices[place],
        text=in_words(parts) if image is None else in_characters(image),
        picture=b"" if image is None else encode(image),
        target=names.get(int(target), str(target)) if is_class else repr(float(target)),
    )
