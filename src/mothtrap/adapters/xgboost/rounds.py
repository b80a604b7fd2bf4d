"""Rounds of boosting as steps, with the metrics that the library computes in each."""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import xgboost
from xgboost.callback import CallbackContainer, EarlyStopping

from mothtrap.adapters.xgboost import parameters, trees
from mothtrap.adapters.xgboost.tables import Tables
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.trees import (
    BoostingBegan,
    BoostingEnded,
    FeatureGains,
    TableSeen,
    TreesGrown,
)
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode

Facts = tuple[type[Fact], ...]
MAX_FITS: Final = 64
"""Trainings of a process that are described; of later ones, as in a search, only rounds count."""
NO_EVALS: Final = "no evals: no evaluation set was passed, so the library computes no metric"
NO_TRAIN: Final = "the training data are not among the evals, so the library computes no loss of it"
NO_HELD_OUT: Final = "no evals: no data were evaluated but those that are trained on"
OF_EACH_ROUND: Final[Facts] = (BoostingBegan, BoostingEnded, TableSeen)
OF_TREES: Final[Facts] = (TreesGrown, FeatureGains)
OF_LOSSES: Final[Facts] = (LossSeries,)
OF_EVALS: Final[Facts] = (Evaluation, EvaluationMetrics, RowsShared)
_LIBRARY: Final = os.path.dirname(os.path.abspath(xgboost.__file__)) + os.sep
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_FOREIGN: Final = (f"site-packages{os.sep}", f"dist-packages{os.sep}", "<frozen", "<string>")
_CALLS: Final = ("fit", "cv", "train")
"""Functions of the library that make a whole model, the outermost one last on the stack."""
Evals = Sequence[tuple[xgboost.DMatrix, str]]
History = Mapping[str, Mapping[str, Sequence[Any]]]


@dataclass(slots=True, eq=False)
class Fit:
    """One training, from its first round on."""

    label: str
    call: str
    location: str
    series: str
    rounds: int = 0
    loss: str | None = None
    train_site: str = ""
    rows: int = 0
    columns: int = 0
    first: int = 0
    has_trees: bool = True
    importance: trees.Importance = field(default_factory=trees.Importance)


class Rounds:
    """Turns rounds into steps, and tells of each training once, at its first round.

    Everything here runs on the thread that trains, within `Job.contain`.

    Args:
        job: takes what is seen.
        tables: looked into when they were made.
    """

    def __init__(self, job: Job, tables: Tables) -> None:
        self._job, self._tables = job, tables
        self._fits: weakref.WeakKeyDictionary[Any, Fit] = weakref.WeakKeyDictionary()
        self._made = 0
        self._losses = self._held_out = self._trees = False
        self._thread: int | None = None

    def closed(
        self,
        owner: object,
        booster: xgboost.Booster,
        made: int,
        table: xgboost.DMatrix | None,
        evals: Evals,
        history: History,
        container: CallbackContainer | None = None,
    ) -> None:
        """Take a round that is complete.

        Args:
            owner: identifies the training while it goes on.
            booster: of the training; of cross-validation that of its first fold.
            made: number of the round in the booster, from 0.
            table: the training data.
            evals: what was evaluated after the round.
            history: values of each metric by name of the data, the latest last.
            container: of the callbacks; None in a loop of the script's own.
        """
        if not self._is_ours():
            return
        fit = self._fits.get(owner)
        if fit is None:
            fit = self._begin(owner, made, container)
        described = self._made <= MAX_FITS
        latest = {
            site: {name: _last(values) for name, values in metrics.items()}
            for site, metrics in history.items()
        }
        if fit.rounds == 0 and described:
            self._describe(fit, booster, table, evals, latest, container)
        fit.rounds += 1
        if described:
            self._look_at_trees(fit, booster, made)
        self._close(fit, latest if described else {})

    def ended(self, owner: object, booster: xgboost.Booster) -> None:
        """Take the end of a training: the booster is complete."""
        fit = self._fits.pop(owner, None)
        if fit is None or self._made > MAX_FITS:
            return
        best = booster.attr("best_iteration")
        self._job.fact(
            BoostingEnded(
                step=self._job.now.step,
                fit=fit.label,
                rounds=fit.rounds,
                best_round=int(best) if best is not None else None,
            )
        )

    def finish(self) -> None:
        """Say, when no more rounds come, what could not be reported in any of the trainings."""
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

    def _is_ours(self) -> bool:
        """Whether this is the thread whose trainings are observed: the first that made a round."""
        here = threading.get_ident()
        self._thread = self._thread or here
        if here != self._thread:
            self._job.blind("trainings in other threads", "one thread of a process is observed")
        return here == self._thread

    def _begin(self, owner: object, made: int, container: CallbackContainer | None) -> Fit:
        self._made += 1
        if self._made == MAX_FITS + 1:
            self._job.blind(
                f"trainings after the first {MAX_FITS}", "only their rounds are counted"
            )
        call, location = _called()
        number = f"#{self._made}" if self._made > 1 else ""
        label = f"{os.path.basename(location) or 'booster'} {call}{number}"
        fit = Fit(label=label, call=call, location=location, series="", first=made)
        if container is None:
            fit.call = "update"
        self._fits[owner] = fit
        return fit

    def _describe(
        self,
        fit: Fit,
        booster: xgboost.Booster,
        table: xgboost.DMatrix | None,
        evals: Evals,
        latest: Mapping[str, Mapping[str, float]],
        container: CallbackContainer | None,
    ) -> None:
        objective, found = parameters.settings(booster)
        if container is not None and container._output_margin:
            objective = "custom"
        fit.has_trees = found.get("booster") != trees.LINEAR
        sites, fit.train_site = list(latest), self._train_site(fit, table, evals, latest)
        metrics = tuple(dict.fromkeys(name for of in latest.values() for name in of))
        stopping = _early_stopping(container)
        rising = {name for name in metrics if parameters.is_higher_better(name)}
        stops_on = ""
        if stopping is not None and sites:
            stops_on = f"{stopping.data or sites[-1]}/{stopping.metric_name or metrics[-1]}"
            if stopping.maximize:
                rising.add(stops_on.rpartition("/")[2])
        fit.loss = parameters.loss_among(metrics)
        fit.series = f"{fit.label} {fit.loss}"
        self._job.fact(
            BoostingBegan(
                step=self._job.now.step,
                fit=fit.label,
                call=fit.call,
                objective=objective,
                learning_rate=parameters.number(found, "learning_rate") if fit.has_trees else None,
                max_depth=int(parameters.number(found, "max_depth")),
                max_leaves=int(parameters.number(found, "max_leaves")),
                parameters=found,
                metrics=metrics,
                higher_is_better=tuple(sorted(rising)),
                series=fit.series if fit.train_site and fit.loss else "",
                sites=tuple(self._site(fit, site) for site in sites),
                train_site=self._site(fit, fit.train_site) if fit.train_site else "",
                stops_after=stopping.rounds if stopping is not None else None,
                stops_on=stops_on,
                rounds_before=fit.first,
                location=fit.location or None,
            )
        )
        if table is not None:
            self._job.contain_part("tables", self._tell_tables, fit, table, evals, objective, found)
        self._tell_what_is_missing(fit, sites)

    def _train_site(
        self,
        fit: Fit,
        table: xgboost.DMatrix | None,
        evals: Evals,
        latest: Mapping[str, object],
    ) -> str:
        if fit.call == "cv":
            return "train" if "train" in latest else ""
        if table is None:
            return ""
        return next((name for data, name in evals if self._tables.same(table, data)), "")

    def _tell_tables(
        self,
        fit: Fit,
        table: xgboost.DMatrix,
        evals: Evals,
        objective: str,
        found: Mapping[str, str],
    ) -> None:
        step, place = self._job.now.step, fit.location
        classes = objective.startswith(("binary:", "multi:"))
        scaled = found.get("scale_pos_weight", "1") != "1"
        fit.rows, fit.columns = table.num_row(), table.num_col()
        describe = functools.partial(
            self._tables.describe,
            step=step,
            fit=fit.label,
            classes=classes,
            scaled=scaled,
            place=place,
        )
        self._job.fact(describe(table, site=""))
        for data, name in evals:
            if name == fit.train_site:
                continue
            site = self._site(fit, name)
            self._job.fact(describe(data, site=site))
            shared = self._tables.shared(table, data, step=step, site=site, place=place)
            if shared is not None:
                self._job.fact(shared)

    def _tell_what_is_missing(self, fit: Fit, sites: Sequence[str]) -> None:
        if not sites:
            self._job.blind(f"losses of {fit.label}", NO_EVALS)
        elif not fit.train_site:
            self._job.blind(f"training loss of {fit.label}", NO_TRAIN)
        if not fit.has_trees:
            self._job.blind(f"trees of {fit.label}", "gblinear has none")

    def _site(self, fit: Fit, name: str) -> str:
        """The label of an evaluation: unique in the run."""
        number = fit.label.partition("#")[2]
        return f"{name}#{number}" if number else name

    def _look_at_trees(self, fit: Fit, booster: xgboost.Booster, made: int) -> None:
        if fit.has_trees and trees.is_looked_at(fit.rounds - 1):
            self._job.contain_part("trees", self._tell_trees, fit, booster, made)
        if fit.has_trees and fit.importance.is_due(fit.rounds):
            self._job.contain_part("importance", self._tell_gains, fit, booster, made)

    def _tell_trees(self, fit: Fit, booster: xgboost.Booster, made: int) -> None:
        leaves, depth = trees.leaves_of(booster, made)
        step = self._job.now.step
        self._job.fact(
            trees.grown(leaves, depth, step=step, fit=fit.label, made=made, rows=fit.rows)
        )

    def _tell_gains(self, fit: Fit, booster: xgboost.Booster, made: int) -> None:
        found = trees.gains(
            booster, step=self._job.now.step, fit=fit.label, made=made, columns=fit.columns
        )
        if found is not None:
            self._job.fact(found)

    def _close(self, fit: Fit, latest: Mapping[str, Mapping[str, float]]) -> None:
        """Make the step, then tell of the evaluations after it."""
        own = latest.get(fit.train_site, {}) if fit.train_site else {}
        losses = []
        if fit.loss is not None and fit.loss in own:
            place = fit.location or None
            losses.append(Losses(series=fit.series, value=own[fit.loss], location=place))
        for name, value in own.items():
            self._job.scalar(f"train.{name}", fit.label, value)
        self._job.stood_ready(OF_EACH_ROUND)
        if fit.has_trees:
            self._trees = True
            self._job.stood_ready(OF_TREES)
        if losses:
            self._losses = True
            self._job.stood_ready(OF_LOSSES)
        if set(latest) - {fit.train_site}:
            self._held_out = True
            self._job.stood_ready(OF_EVALS)
        self._job.step(losses)
        for site, metrics in latest.items():
            if site != fit.train_site:
                self._job.evaluation(
                    self._site(fit, site),
                    metrics,
                    loss=fit.loss if fit.loss in metrics else None,
                    higher_is_better=frozenset(filter(parameters.is_higher_better, metrics)),
                )


def _last(values: Sequence[Any]) -> float:
    """The latest value of a metric; of cross-validation the mean over its folds."""
    latest = values[-1] if values else math.nan
    return float(latest[0] if isinstance(latest, tuple) else latest)


def _early_stopping(container: CallbackContainer | None) -> EarlyStopping | None:
    callbacks = container.callbacks if container is not None else ()
    return next((one for one in callbacks if isinstance(one, EarlyStopping)), None)


def _called() -> tuple[str, str]:
    """The function of the library that trains, and the user's line that called it."""
    frame: FrameType | None = sys._getframe(1)
    call, library = "train", ""
    while frame is not None:
        name = os.path.abspath(frame.f_code.co_filename)
        if name.startswith(_LIBRARY):
            if frame.f_code.co_name in _CALLS:
                call = frame.f_code.co_name
        elif not name.startswith(_OURS):
            place = f"{_relative(name)}:{frame.f_lineno}"
            if not any(part in frame.f_code.co_filename for part in _FOREIGN):
                return call, place
            library = library or place
        frame = frame.f_back
    return call, library


def _relative(path: str) -> str:
    inside = os.path.relpath(path)
    return path if inside.startswith("..") else inside
