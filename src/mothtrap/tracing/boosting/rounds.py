"""Rounds of boosting as steps, with the metrics that a library computes in each."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mothtrap.core.adapters import Job, Losses
from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.estimators import PredictionsCompared
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.pipelines import ShuffledApart
from mothtrap.core.facts.trees import (
    BoostingBegan,
    BoostingEnded,
    ColumnsSeen,
    FeatureGains,
    FeatureImportance,
    GradientsGiven,
    ScoresSeen,
    TablesDiffer,
    TableSeen,
    TreesGrown,
)
from mothtrap.core.metrics import loss_among
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.boosting import columns, guesses, tables, trees
from mothtrap.tracing.boosting.models import Latest, Model, Settings, Table
from mothtrap.tracing.boosting.samples import Sample, Samples
from mothtrap.tracing.boosting.scores import scores
from mothtrap.tracing.source import frames

Facts = tuple[type[Fact], ...]
MAX_FITS: Final = 64
"""Maximum number of described training runs of a process; later runs, as in a search, only count
rounds.
"""
IMPORTANCES: Final = 100
SCORED_ROWS: Final = 4096
"""Maximum number of rows whose predictions are inspected during training; all rows are inspected at
the end.
"""
NO_EVALS: Final = "no evals were passed, so the library computes no metric"
NO_TRAIN: Final = "the training data are not in evals, so the library computes no training loss"
NO_HELD_OUT: Final = "no evals: only the training data were evaluated"
OF_EACH_ROUND: Final[Facts] = (
    *(BoostingBegan, BoostingEnded, TableSeen, ColumnsSeen),
    ShuffledApart,
)
OF_TREES: Final[Facts] = (TreesGrown, FeatureGains, FeatureImportance)
OF_LOSSES: Final[Facts] = (LossSeries,)
OF_EVALS: Final[Facts] = (Evaluation, EvaluationMetrics, RowsShared, TablesDiffer, ScoresSeen)
OF_OBJECTIVES: Final[Facts] = (GradientsGiven,)
OF_METRICS: Final[Facts] = (PredictionsCompared,)
REPORTS: Final = Reports(
    scalars=frozenset({"loss"}),
    facts=frozenset(
        {*OF_EACH_ROUND, *OF_TREES, *OF_LOSSES, *OF_EVALS, *OF_OBJECTIVES, *OF_METRICS}
    ),
    modes=frozenset({Mode.TRAIN, Mode.EVAL}),
)
"""All data that rounds can provide."""


@dataclass(slots=True, eq=False)
class Fit:
    """One training run, from its first round on.

    Attributes:
        sites: labels of the evaluations by the library's names of the data.
        labels: labels of the rows that are evaluated, by name of the data.
        guesses: loss from guessing by name of the data.
        own: sample of the training rows.
    """

    label: str
    call: str
    location: str
    allowance: trees.Allowance
    series: str = ""
    rounds: int = 0
    settings: Settings = field(default_factory=lambda: Settings(objective=""))
    loss: str | None = None
    train_site: str = ""
    rows: int = 0
    columns: int = 0
    first: int = 0
    trees_told: bool = False
    trees_due: bool = False
    own: Sample | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    guesses: dict[str, float | None] = field(default_factory=dict)
    importance: trees.Schedule = field(default_factory=lambda: trees.Schedule(trees.GROWTH))
    scored: trees.Schedule = field(default_factory=lambda: trees.Schedule(trees.SCORED))

    def site(self, name: str) -> str:
        """Return the label of an evaluation: unique in the run."""
        number = self.label.partition("#")[2]
        return f"{name}#{number}" if number else name


class Rounds:
    """Converts rounds to steps, and reports each training run once, at its first round.

    All methods run on the training thread, within `Job.contain`.

    Args:
        job: receives the observations.
        samples: rows of tables, sampled when the tables were created.

    Attributes:
        latest: the training run that began last.
    """

    def __init__(self, job: Job, samples: Samples) -> None:
        self._job, self._samples = job, samples
        self._fits: weakref.WeakKeyDictionary[Any, Fit] = weakref.WeakKeyDictionary()
        self._given: tuple[weakref.ref[object], Mapping[str, Any]] | None = None
        self._made = 0
        self._losses = self._held_out = self._trees = self._gradients = False
        self._thread: int | None = None
        self.latest: Fit | None = None

    def closed(self, owner: object, model: Model, made: int, latest: Latest, call: str) -> None:
        """Process a complete round.

        Args:
            owner: identifies the training run while it is in progress.
            model: model in training.
            made: number of the round in the model, from 0.
            latest: metrics by name of the data.
            call: function of the library that trains.
        """
        if not self.is_ours():
            return
        fit = self._fits.get(owner)
        if fit is None:
            fit = self._begin(owner, made, call)
        described = self._made <= MAX_FITS
        if fit.rounds == 0 and described:
            self._describe(fit, model, latest)
            self._report_gradients(fit, owner)
        fit.rounds += 1
        if described:
            self._look(fit, model, made)
        self._close(fit, latest if described else {})

    def ended(self, owner: object, model: Model | None) -> None:
        """Process the end of a training run, when the model is complete."""
        fit = self._fits.pop(owner, None)
        if fit is None or model is None or self._made > MAX_FITS:
            return
        step = self._job.now.step
        if fit.settings.has_trees:
            made = fit.first + fit.rounds
            for each in range(fit.first, made) if not fit.trees_told else ():
                early = each - fit.first < trees.EACH_ROUND
                if trees.is_looked_at(each) and (early or fit.allowance.covers_a_look()):
                    # some libraries provide trees only now
                    self._spend(fit, "trees", self._report_trees, model, each)
            self._job.contain_part("importance", self._report_gains, fit, model, made - 1)
            self._job.contain_part("importance", self._report_importances, fit, model)
        self._job.contain_part("scores", self._report_scores, fit, model, True)
        self._job.fact(
            BoostingEnded(
                step=step, fit=fit.label, rounds=fit.rounds, best_round=model.best_round()
            )
        )

    def gradients(self, owner: object, found: Mapping[str, Any]) -> None:
        """Store the result of a user's objective until the end of the first round."""
        if owner in self._fits or not self.is_ours() or self._made >= MAX_FITS:
            return
        self._gradients = True
        self._given = weakref.ref(owner), found

    def _report_gradients(self, fit: Fit, owner: object) -> None:
        given, self._given = self._given, None
        if given is not None and (given[0]() is owner or fit.settings.objective == "custom"):
            self._job.fact(GradientsGiven(step=self._job.now.step, fit=fit.label, **given[1]))

    def finish(self) -> None:
        """Report, after the last round, data that was not reported by a training run."""
        if not self._made:
            return
        if not self._held_out:
            lacking = Reports(facts=frozenset(OF_EVALS), modes=frozenset({Mode.EVAL}))
            self._job.cannot(NO_HELD_OUT if self._losses else NO_EVALS, lacking)
        if not self._losses:
            lacking = Reports(scalars=frozenset({"loss"}), facts=frozenset(OF_LOSSES))
            self._job.cannot(NO_TRAIN if self._held_out else NO_EVALS, lacking)
        if not self._trees:
            self._job.cannot("the boosters have no trees", Reports(facts=frozenset(OF_TREES)))
        if not self._gradients:
            lacking = Reports(facts=frozenset(OF_OBJECTIVES))
            self._job.cannot("the objective is built into the library", lacking)

    def is_ours(self) -> bool:
        """Return whether this is the thread whose training runs are observed.

        It is the first thread that made a round.
        """
        here = threading.get_ident()
        self._thread = self._thread or here
        if here != self._thread:
            self._job.blind("training in other threads", "one thread of a process is observed")
        return here == self._thread

    def label_of(self, owner: object, call: str) -> str:
        """Return the label of a training run in progress, or before the end of its first round."""
        fit = self._fits.get(owner)
        return fit.label if fit is not None else self._label(call, self._made + 1)[0]

    def _label(self, call: str, number: int) -> tuple[str, str]:
        place = frames.user_location() or ""
        suffix = f"#{number}" if number > 1 else ""
        return f"{os.path.basename(place) or 'booster'} {call}{suffix}", place

    def _begin(self, owner: object, made: int, call: str) -> Fit:
        self._made += 1
        if self._made == MAX_FITS + 1:
            self._job.blind(
                f"training runs after the first {MAX_FITS}", "only their rounds are counted"
            )
        label, location = self._label(call, self._made)
        allowance = trees.Allowance(self._job.config.overhead)
        fit = Fit(label=label, call=call, location=location, allowance=allowance, first=made)
        self._fits[owner] = fit
        return fit

    def _describe(self, fit: Fit, model: Model, latest: Latest) -> None:
        settings = fit.settings = model.settings(latest)
        self.latest = fit
        train, evals = model.tables()
        sites, fit.train_site = list(latest), self._train_site(model, train, evals, latest)
        metrics = tuple(dict.fromkeys(name for of in latest.values() for name in of))
        fit.loss = loss_among(metrics, settings.objective)
        fit.series = f"{fit.label} {fit.loss}"
        on = settings.stops_on
        self._job.fact(
            BoostingBegan(
                step=self._job.now.step,
                fit=fit.label,
                call=fit.call,
                objective=settings.objective,
                learning_rate=settings.learning_rate,
                max_depth=settings.max_depth,
                max_leaves=settings.max_leaves,
                parameters=settings.parameters,
                metrics=metrics,
                higher_is_better=tuple(sorted(filter(settings.is_rising, metrics))),
                series=fit.series if fit.train_site and fit.loss else "",
                sites=tuple(fit.site(site) for site in sites),
                train_site=fit.site(fit.train_site) if fit.train_site else "",
                stops_after=settings.stops_after,
                stops_on=next(
                    (each for each in on if each.rpartition("/")[0] != fit.train_site),
                    next(iter(on), ""),
                ),
                stops_rising=settings.stops_rising,
                rounds_before=fit.first,
                rounds_asked=settings.rounds_asked,
                keeps_best=settings.keeps_best,
                ignored=settings.ignored,
                library=model.library,
                task=settings.task,
                classes=settings.classes,
                location=fit.location or None,
            )
        )
        if train is not None:
            self._job.contain_part("tables", self._report_tables, fit, train, evals)
        self._report_missing(fit, sites)

    def _train_site(
        self,
        model: Model,
        train: Table | None,
        evals: Sequence[tuple[Table, str]],
        latest: Latest,
    ) -> str:
        told = model.train_site(latest)
        if told is not None or train is None:
            return told or ""
        # The training data first, before other tables with the same rows.
        for data, name in evals:
            if data.key is train.key:
                return name
        return next((name for data, name in evals if tables.same(self._samples, train, data)), "")

    def _report_tables(self, fit: Fit, train: Table, evals: Sequence[tuple[Table, str]]) -> None:
        job, step, place = self._job, self._job.now.step, fit.location
        fit.rows, fit.columns = train.rows, train.columns
        fit.own = self._samples.of(train.key)
        classes = fit.settings.task in ("two_classes", "classes")
        scaled, ours = fit.settings.scaled, fit.own
        about = {"step": step, "fit": fit.label}
        known = {"classes": classes, "scaled": scaled, "place": place}
        job.fact(tables.describe(train, ours, site="", **about, **known))  # type: ignore[arg-type]
        names = train.column_names()
        whole = ours is not None and ours.kept_RC.shape[1] == train.columns
        if ours is not None and whole:
            job.fact(
                columns.seen(
                    ours,
                    names,
                    train.label(),
                    step=step,
                    fit=fit.label,
                    categorical=train.categorical,
                    classes=classes,
                )
            )
        for data, name in evals:
            fit.labels[name] = data.label()
            if name == fit.train_site:
                continue
            site, theirs = fit.site(name), self._samples.of(data.key)
            job.fact(tables.describe(data, theirs, site=site, **about, **known))  # type: ignore[arg-type]
            overlap = tables.shared(ours, theirs, step=step, site=site, place=place)
            if overlap is not None:
                job.fact(overlap)
            if ours is not None and theirs is not None and whole:
                differ = columns.differences(
                    ours, theirs, names, step=step, fit=fit.label, site=site
                )
                if differ is not None:
                    job.fact(differ)

    def _report_missing(self, fit: Fit, sites: Sequence[str]) -> None:
        if not sites:
            self._job.blind(f"losses of {fit.label}", NO_EVALS)
        elif not fit.train_site:
            self._job.blind(f"training loss of {fit.label}", NO_TRAIN)
        if not fit.settings.has_trees:
            self._job.blind(f"trees of {fit.label}", "its boosters have none")

    def _look(self, fit: Fit, model: Model, made: int) -> None:
        """Inspect trees, importance and predictions that are due, within the time budget."""
        has_trees = fit.settings.has_trees
        fit.trees_due = has_trees and (fit.trees_due or trees.is_looked_at(fit.rounds - 1))
        if fit.trees_due and self._may_look(fit, trees.EACH_ROUND):
            fit.trees_due = False
            self._spend(fit, "trees", self._report_trees, model, made)
        if has_trees and self._may_look(fit) and fit.importance.is_due(fit.rounds):
            self._spend(fit, "importance", self._report_gains, model, made)
        if self._may_look(fit) and fit.scored.is_due(fit.rounds):
            self._spend(fit, "scores", self._report_scores, model, False)

    def _may_look(self, fit: Fit, anyway: int = trees.ANYWAY) -> bool:
        return fit.rounds <= anyway or fit.allowance.covers_a_look()

    def _spend(self, fit: Fit, part: str, look: Callable[..., None], *args: object) -> None:
        fit.allowance.spend(lambda: self._job.contain_part(part, look, fit, *args))

    def _report_trees(self, fit: Fit, model: Model, made: int) -> None:
        found = model.leaves(made)
        if found is not None:
            leaves, depth = found
            fit.trees_told = True
            step = self._job.now.step
            self._job.fact(
                trees.grown(leaves, depth, step=step, fit=fit.label, made=made, rows=fit.rows)
            )

    def _report_gains(self, fit: Fit, model: Model, made: int) -> None:
        step = self._job.now.step
        found = trees.shares(
            model.gains(), step=step, fit=fit.label, made=made, columns=fit.columns
        )
        if found is not None:
            self._job.fact(found)

    def _report_importances(self, fit: Fit, model: Model) -> None:
        for kind, values in model.importances().items():
            largest = sorted(values.items(), key=lambda item: -item[1])[:IMPORTANCES]
            self._job.fact(
                FeatureImportance(
                    step=self._job.now.step, fit=fit.label, kind=kind, values=dict(largest)
                )
            )

    def _report_scores(self, fit: Fit, model: Model, last: bool) -> None:
        for name, label_R in fit.labels.items():
            predicted = model.predictions(name) if label_R is not None else None
            if predicted is None:
                continue
            every = 1 if last else max(1, len(predicted) // SCORED_ROWS)
            found = scores(
                predicted[::every],
                label_R[::every],
                task=fit.settings.task,
                step=self._job.now.step,
                fit=fit.label,
                site=fit.site(name),
                rounds=fit.rounds,
                last=last,
            )
            if found is not None:
                self._job.fact(found)

    def _guess(self, fit: Fit, name: str) -> float | None:
        if name not in fit.guesses:
            loss = fit.loss
            fit.guesses[name] = guesses.guess(loss, fit.labels.get(name)) if loss else None
        return fit.guesses[name]

    def _close(self, fit: Fit, latest: Latest) -> None:
        """Close the step, then report the evaluations after it."""
        own = latest.get(fit.train_site, {}) if fit.train_site else {}
        losses = []
        if fit.loss is not None and fit.loss in own:
            place = fit.location or None
            losses.append(Losses(series=fit.series, value=own[fit.loss], location=place))
        for name, value in own.items():
            self._job.scalar(f"train.{name}", fit.label, value)
        self._stand_ready(fit, bool(losses), bool(set(latest) - {fit.train_site}))
        self._job.step(losses)
        for site, metrics in latest.items():
            if site != fit.train_site:
                label_R = fit.labels.get(site)
                self._job.evaluation(
                    fit.site(site),
                    metrics,
                    loss=fit.loss if fit.loss in metrics else None,
                    higher_is_better=frozenset(filter(fit.settings.is_rising, metrics)),
                    rows=len(label_R) if label_R is not None else None,
                    guess=self._guess(fit, site),
                )

    def _stand_ready(self, fit: Fit, losses: bool, held_out: bool) -> None:
        self._job.stood_ready((*OF_EACH_ROUND, *OF_METRICS))
        if fit.settings.has_trees:
            self._trees = True
            self._job.stood_ready(OF_TREES)
        if losses:
            self._losses = True
            self._job.stood_ready(OF_LOSSES)
        if held_out:
            self._held_out = True
            self._job.stood_ready(OF_EVALS)
        if self._gradients:
            self._job.stood_ready(OF_OBJECTIVES)
