"""View of a process's job for one adapter; see `core.adapters.Job`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident
from typing import Any, TypeVar

import numpy as np

from mothtrap.capture.grouper import ClosedStep, Event
from mothtrap.capture.logged import log_number
from mothtrap.core import kinds
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.fact import Fact
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.workers import Resumed
from mothtrap.core.measured import logged_name
from mothtrap.core.records import Scalar
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.stopping import TrialEnded
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import numpy as arithmetic
from mothtrap.tracing.jobs.access import ProcessAccess, RecorderAccess
from mothtrap.tracing.jobs.evaluations import Evaluations
from mothtrap.tracing.jobs.process_job import ProcessJob, StepObserver
from mothtrap.tracing.jobs.settings import Settings

T = TypeVar("T")
Part = tuple[str, Callable[..., object]]
"""Runs a part that may fail alone, under the name used in its error report."""


class AdapterJob(RecorderAccess, ProcessAccess):
    """One adapter's view of the job; isolates the adapter's errors from the training.

    Args:
        process: the job.
        framework: framework of the adapter.
        arrays: the module of `mothtrap.statistics` that reduces its arrays; None = the phase clock
            of the recorder.
        reports: everything that the adapter can ever report.
        refines: the framework on which it trains.
        counts_steps: False if the underlying framework counts them.

    Attributes:
        evaluations: converts evaluations to facts, and counts them and their forwards.
        reports: everything that the adapter can ever report; None = unknown.
        live: False once the process has forked or ended, or this adapter has failed as a whole.
        settings: reports settings that have no effect on its steps.
        observer: adds data to the steps of this framework and its family.
        thread: the only thread in which hooks run; 0 for all threads.
        elsewhere: returns whether the calling thread is not the observed thread, so that no hook
            runs in it.
    """

    def __init__(
        self,
        process: ProcessJob,
        framework: str,
        *,
        arrays: Any = None,
        reports: Reports | None = None,
        refines: str | None = None,
        counts_steps: bool = True,
    ) -> None:
        self.process, self.framework, self.refines = process, framework, refines
        self.config, self.recorder, self.grouper = process.config, process.recorder, process.grouper
        self.arrays = arrays if arrays is not None else self.recorder.captures.reducer
        self.reports = reports
        self.live = True
        say, observe = self.recorder.containment.say, self.recorder.notes.observe
        self.settings = Settings(self.config, framework, self.grouper, say, observe)
        self.observer: StepObserver | None = None
        self.thread = 0
        self.elsewhere: Callable[[], bool] = lambda: True
        self.counts_steps = counts_steps
        self._depth = 0
        self._clock, self._failed = self.recorder.times.clock, self.recorder.containment.failed
        self._series: set[str] = set()
        self._loss_tensors: dict[str, int] = {}
        self.evaluations = Evaluations()
        process.members[framework] = self

    def leave(self) -> None:
        """Stop taking part."""
        self.live = False
        self.process.members.pop(self.framework, None)

    @property
    def now(self) -> StepKey:
        """The train step in progress."""
        step = self.grouper.step
        return StepKey(step=step, mode=Mode.TRAIN, mode_step=step)

    def contain(self, act: Callable[..., T], *args: Any) -> T | None:
        """Run a hook: its time counts as overhead, and an error disables the whole adapter."""
        if not self.live or (self.thread and get_ident() != self.thread and self.elsewhere()):
            return None
        began = self._clock()
        self._depth += 1
        try:
            unheard = self.recorder.unheard
            if unheard is None:
                return act(*args)
            with unheard.in_modes() if unheard.modes() else unheard.plain():
                return act(*args)
        except TrialEnded as ended:
            if self._depth > 1:
                raise
            raise ended.error from None
        except Exception as err:
            self.live = False
            self._report(f"observation of {self.framework}", err)
            return None
        finally:
            self._depth -= 1
            if self._depth == 0:  # an outer hook counts the time of an inner one
                times = self.recorder.times
                times.own_s += self._clock() - began - times.waited_s
                times.waited_s = 0.0

    def contained(self, act: Callable[..., T]) -> Callable[..., T | None]:
        """Wrap a hook so that it runs as with `contain`, without a further Python call."""
        return functools.partial(self.contain, act)

    def contain_part(self, part: str, act: Callable[..., object], *args: Any) -> None:
        """Run a part that may fail without affecting other parts."""
        if part in self._failed:
            return
        try:
            act(*args)
        except Exception as err:
            self._report(part, err)

    def contain_parts(self, parts: Iterable[Part], *args: Any) -> None:
        """Run several parts in order; parts with the same name fail together."""
        failed = self._failed
        for part, act in parts:
            if part not in failed:
                try:
                    act(*args)
                except Exception as err:
                    self._report(part, err)

    def _report(self, part: str, err: Exception) -> None:
        failure = self.recorder.containment.report(part, err, step=self.grouper.step)
        if failure is not None:
            self.recorder.notes.observe(failure)
            self.blind(part, f"failed: {failure.error}")

    @property
    def is_resumed(self) -> bool:
        """Return whether `resume` has an effect, so that digests are worth computing."""
        return self.process.resumption is not None and not self.grouper.step

    def resume(self, digests: Mapping[str, str], own_steps: int | None = None) -> Resumed | None:
        """Report the loaded state before the first step; step numbers continue from there."""
        return self.process.resume(digests, own_steps)

    def event(self, event: Event) -> None:
        """Process an event of the framework; close the step that it ends."""
        closed = self.grouper.feed(event)
        if closed is not None:
            self.close(closed)

    def close(self, closed: ClosedStep) -> None:
        """Emit a step, with data from the framework and its relatives."""
        self.process.close(closed, self.framework)

    def step(
        self,
        losses: Sequence[Losses] = (),
        *,
        count: int = 1,
        skipped: bool = False,
        optimizer: str = "",
    ) -> range:
        """Close the step in progress; return the numbers of the steps that ended."""
        name = optimizer or self.framework
        if not self.counts_steps:
            self._add_losses(losses, name)
            return range(0)
        self.resume({})
        self.process.take_turn(self.framework)
        first = self.grouper.step
        for made in range(count):
            if made == count - 1:
                self._add_losses(losses, name)
            self.process.make_step(self.framework, name, skipped=skipped)
        return range(first, self.grouper.step)

    def _add_losses(self, losses: Sequence[Losses], optimizer: str) -> None:
        for loss in losses:
            self.scalar("loss", loss.series, loss.value)
            if self.reports is not None and "loss" in self.reports.kinds and self.wants("loss"):
                self._take_loss(loss)
            self.evaluations.training.add(loss.series, loss.value)
            if loss.series not in self._series:
                self._series.add(loss.series)
                self.fact(
                    LossSeries(
                        step=self.grouper.step,
                        series=loss.series,
                        location=loss.location,
                        optimizers=(loss.optimizer or optimizer,),
                    )
                )

    def _take_loss(self, loss: Losses) -> None:
        """Capture a loss as a tensor of one element, if a collection requests it."""
        number = self._loss_tensors.get(loss.series)
        if number is None:
            info = TensorInfo(kind="loss", name=loss.series, shape=(), dtype="float64")
            number = self._loss_tensors[loss.series] = self.define(info)
        self.take("loss", [number], [np.array(loss.value)], by=arithmetic)

    def evaluation(
        self,
        name: str,
        values: Mapping[str, float],
        *,
        loss: str | None = None,
        higher_is_better: frozenset[str] = frozenset(),
        rows: int | None = None,
        guess: float | None = None,
        label_counts: tuple[int, ...] | None = None,
        moments: tuple[float | None, float | None] = (None, None),
        location: str | None = None,
    ) -> None:
        """Report the metrics of one evaluation between two steps."""
        key = StepKey(
            step=self.grouper.step, mode=Mode.EVAL, mode_step=self.evaluations.next_number()
        )
        facts = self.evaluations.facts(
            key.step,
            name,
            values,
            loss=loss,
            higher_is_better=higher_is_better,
            rows=rows,
            guess=guess,
            label_counts=label_counts,
            moments=moments,
            location=location,
        )
        scalars = [
            Scalar(metric if metric == loss else logged_name(metric), name, float(value))
            for metric, value in values.items()
        ]
        self.recorder.evaluation(key, scalars, facts)

    def wants(
        self, kind: str, mode: Mode = Mode.TRAIN, *, ids: Sequence[int] | None = None
    ) -> frozenset[str]:
        """Return the statistics due in this step for a kind, or for some of its tensors."""
        if ids is None:
            return self.recorder.due.of_kind(kind, mode)
        return frozenset().union(*(self.recorder.due.statistics(each, mode) for each in ids))

    def take(
        self,
        kind: str,
        ids: Sequence[int],
        arrays: Sequence[Any],
        *,
        mode: Mode | None = None,
        by: Any = None,
    ) -> None:
        """Reduce or copy the tensors of one kind that are due."""
        self.recorder.captures.reduce(kind, ids, arrays, mode, reducer=by or self.arrays)

    def define(self, info: TensorInfo) -> int:
        """Define a tensor; return its id."""
        return self.recorder.tensors.define(info)

    def scalar(self, name: str, of: str, value: float) -> None:
        """Add a number to the step in progress."""
        self.recorder.notes.scalar(name, of, value)

    def number(self, name: str, value: Any) -> None:
        """Add a number given by the user; other values are skipped and reported once."""
        self.try_value(
            f"values of {name}", value, functools.partial(log_number, self.recorder, name)
        )

    def try_value(self, what: str, value: Any, take: Callable[[Any], None]) -> None:
        """Convert a user's value to a number; report, once, a value that is not a number."""
        try:
            take(value)
        except Exception as err:  # objects of the user may raise anything
            reason = f"a {type(value).__name__} is not a number ({in_one_line(err)})"
            self.blind(what, reason)

    def fact(self, fact: Fact) -> None:
        """Add a fact to the step in progress."""
        self.recorder.notes.observe(fact)

    def cannot(self, why: str, lacking: Reports) -> None:
        """Report which of the adapter's declared reports are unavailable in this job, and why."""
        self.recorder.looks.cannot(self.framework, why, lacking, self.grouper.step)

    def stood_ready(self, facts: tuple[type[Fact], ...]) -> None:
        """Declare that these facts would be reported if they occurred in the step in progress."""
        self.recorder.looks.stood_ready(facts, self.grouper.step, self.framework)

    def stepped(self, step: int) -> None:
        """Declare, at the first step of the framework, everything that its adapter can report."""
        if self.counts_steps:
            self.settings.check(step)
        if self.reports is not None:
            self.recorder.looks.reports(self.framework, self.reports, step)
            self._report_lacking()

    def _report_lacking(self) -> None:
        """Report collections of kinds of tensors that no adapter of the step provides."""
        family = self.process.family(self.framework)
        members = [member for name, member in self.process.members.items() if name in family]
        given = frozenset().union(*(one.reports.kinds for one in members if one.reports))
        logged = {kind for kind in kinds.names() if kinds.kind_of(kind).of == "log"}
        by_collection: dict[str, set[str]] = {}
        for stream in self.recorder.plan.streams:
            if stream.collection:
                by_collection.setdefault(stream.collection, set()).update(stream.kinds)
        for name, asked in by_collection.items():
            lacking = sorted(asked - given - logged)
            if lacking and len(asked) < len(kinds.names()):
                plurals = ", ".join(kinds.kind_of(kind).plural for kind in lacking)
                why = f"{self.framework} has no {plurals} to capture"
                self.blind(f"collection {name}", why.replace("_", " "))

    def blind(self, what: str, why: str) -> None:
        """Report once that something is not observed, with the reason."""
        self.recorder.notes.blind(self.grouper.step, what, why)


def traced(job: Job) -> AdapterJob:
    """Return a job as this package's type; only the PyTorch adapter uses more than `Job`.

    Raises:
        TypeError: it belongs to another adapter.
    """
    if not isinstance(job, AdapterJob):
        raise TypeError(f"cannot watch for a {type(job).__qualname__}: not a job of a session")
    return job
