"""Evaluations whose metrics the framework computes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import structs

from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.steps import Mode


class TrainingMeans:
    """Means of training losses since an earlier time."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, series: str, loss: float) -> None:
        """Add the loss of a training step."""
        if math.isfinite(loss):
            total, count = self._sums.get(series, (0.0, 0))
            self._sums[series] = total + loss, count + 1

    def mark(self) -> dict[str, tuple[float, int]]:
        """Return a marker of the current time, for `since`."""
        return dict(self._sums)

    def since(self, mark: Mapping[str, tuple[float, int]]) -> dict[str, float]:
        """Return the mean of each series with a loss since a marker."""
        means = {}
        for series, (total, count) in self._sums.items():
            old_total, old_count = mark.get(series, (0.0, 0))
            if count > old_count:
                means[series] = (total - old_total) / (count - old_count)
        return means


@dataclass(slots=True)
class _Site:
    """State of one metric of one dataset."""

    number: int = 0
    first: float = math.nan
    best: float = math.inf
    best_step: int = 0
    mark: dict[str, tuple[float, int]] = field(default_factory=dict)


class Evaluations:
    """Converts the metrics of evaluations to facts for rules.

    Attributes:
        training: mean training losses.
    """

    def __init__(self) -> None:
        self.training = TrainingMeans()
        self._sites: dict[str, _Site] = {}
        self._metrics: dict[str, EvaluationMetrics] = {}
        self._made: Counter[Mode] = Counter()
        self._has_forwards = False

    def next_forward(self, mode: Mode) -> int:
        """Count a captured forward pass; return its number within the mode, from 0."""
        self._has_forwards = self._has_forwards or mode is Mode.EVAL
        self._made[mode] += 1
        return self._made[mode] - 1

    def next_number(self) -> int:
        """Return the number of an ending evaluation: the number of its last captured forward pass.

        An evaluation without such forward passes counts as one forward pass.
        """
        if not self._has_forwards:
            self.next_forward(Mode.EVAL)
        self._has_forwards = False
        return self._made[Mode.EVAL] - 1

    def facts(
        self,
        step: int,
        name: str,
        values: Mapping[str, float],
        *,
        loss: str | None,
        higher_is_better: frozenset[str],
        rows: int | None,
        guess: float | None = None,
        label_counts: tuple[int, ...] | None = None,
        moments: tuple[float | None, float | None] = (None, None),
        location: str | None = None,
    ) -> list[Fact]:
        """Return the facts that record an evaluation.

        Args:
            step: training step after the evaluation.
            name: name of the evaluated data.
            values: values by metric.
            loss: the metric that is compared with training losses, if any.
            higher_is_better: metrics that increase as the model improves.
            rows: number of rows; None = unknown.
            guess: lowest loss of a constant prediction; None = unknown.
            label_counts: number of rows of each class 0, 1 ...; None = unknown.
            moments: mean and standard deviation of the targets of a squared error.
            location: the line that evaluates; None = unknown.
        """
        found: list[Fact] = []
        metrics = EvaluationMetrics(
            step=step,
            mode=Mode.EVAL,
            site=name,
            loss=loss,
            higher_is_better=tuple(sorted(higher_is_better & values.keys())),
            lower_is_better=tuple(sorted(values.keys() - higher_is_better)),
        )
        known = self._metrics.get(name)
        if known is None or _directions(known) != _directions(metrics):
            self._metrics[name] = metrics
            found.append(metrics)
        if loss is not None and loss in values:
            made = self._evaluation(step, name, loss, float(values[loss]), rows or 0)
            more = {"guess": guess, "label_counts": label_counts, "location": location}
            mean, std = moments
            found.append(structs.replace(made, target_mean=mean, target_std=std, **more))
        return found

    def _evaluation(self, step: int, name: str, loss: str, value: float, rows: int) -> Evaluation:
        site = self._sites.setdefault(name, _Site())
        if not site.number:
            site.first = value
        if value < site.best:
            site.best, site.best_step = value, step
        found = Evaluation(
            step=step,
            mode=Mode.EVAL,
            site=name,
            operation=loss,
            value=value,
            calls=1,
            rows=rows,
            number=site.number,
            first=site.first,
            best=site.best,
            best_step=site.best_step,
            train_losses=self.training.since(site.mark),
        )
        site.number += 1
        site.mark = self.training.mark()
        return found


def _directions(metrics: EvaluationMetrics) -> tuple[object, ...]:
    return metrics.loss, metrics.higher_is_better, metrics.lower_is_better
