"""Steps of a job, from the observations of adapters to records at the sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar

from mothtrap.capture.arena import Arenas
from mothtrap.capture.captures import Captures
from mothtrap.capture.changes import Changes
from mothtrap.capture.containment import Containment
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.notes import Notes
from mothtrap.capture.outlet import Outlet
from mothtrap.capture.phase_clock import PhaseClock
from mothtrap.capture.plan import Plan
from mothtrap.capture.readiness import Looks
from mothtrap.capture.selection import Stream
from mothtrap.capture.statistics_rows import Reducer
from mothtrap.capture.step_rows import Collected, StepRows
from mothtrap.capture.step_sampling import StepSampler
from mothtrap.capture.step_times import StepTimes
from mothtrap.capture.tensor_registry import Tensors
from mothtrap.capture.unheard import Unheard
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Unwatched
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.measured import MEASURED
from mothtrap.core.packed_floats import packed
from mothtrap.core.records import RawBlock, Scalar
from mothtrap.core.steps import Mode, StepKey

Moment = Literal["begins", "within", "between"]
"""State of the step: not yet observed, in progress, or applied before the next step."""
ArrayT = TypeVar("ArrayT", contravariant=True)


class Recorder(Generic[ArrayT]):
    """Closes steps, and decides with the plan about the next step.

    Adapters query `due` and the plan, and fill `captures` and `notes`; the session sets the
    recorder up, changes the plan, and ends it.

    Attributes:
        plan: determines what is due, and whether the step in progress is light.
        due: tensor data to capture in the step in progress.
        depths: determines which steps are observed in full.
        captures: rows and copies of tensors of the step in progress.
        notes: numbers and facts of the step in progress.
        tensors: all defined tensors.
        times: times of steps, and of mothtrap's share of them.
        sinks: receivers of closed steps; filled by the session when the first step closes.
        containment: the failed parts.
        steps: train steps closed so far.
        changes: receives user requests during the job.
        sampler: determines which steps are watched.
        logs: called when users log something, with whether a step is known to begin with it;
            returns the step to which it belongs.
        moment: position of the training in the step; see `Moment`.
        ends: the next step to close is the last step of this process.
        looks: the needed facts, and the steps in which observers searched for them.
        boundary: called between two steps with the number of the next one; may end the training.
        unheard: hides the operations of hooks from the user's modes; see `capture.unheard`.
        left_out: returns whether the calling thread trains without being observed, so that its
            logged values belong to no step of the run.
        before_guard_stops: called when an adapter's guard is about to end the training, with
            whether the guards of all workers end it at the same step.
        deferring: called with the name, value and receiver of logged values; True: the value comes
            later, when the compiled program that computes it has run.
    """

    def __init__(
        self,
        reducer: Reducer[ArrayT],
        streams: Sequence[Stream],
        containment: Containment,
        *,
        overhead: float,
        on_first_step: Callable[[], None],
        raw_bytes: int = 64 << 20,
        raw_wait_s: float = 0.0,
        looks: Looks | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.containment, self.looks = containment, looks or Looks()
        self.plan, self.sampler = Plan(streams, overhead), StepSampler(overhead)
        self.due, self.depths = self.plan.due, self.plan.depths
        self.notes, self.times = Notes(), StepTimes(clock)
        self.phases, self._thread_s = PhaseClock(self.times), time.thread_time()
        self.tensors, rows = Tensors(self.plan.selection), StepRows(reducer)
        self._outlet = Outlet(rows, self.tensors, containment, self.notes.observe)
        self.sinks = self._outlet.sinks
        self.captures = Captures(
            *(rows, Arenas(raw_bytes)),
            raw_wait_s=raw_wait_s,
            plan=self.plan,
            tensors=self.tensors,
            notes=self.notes,
            times=self.times,
            outlet=self._outlet,
        )
        self.changes = Changes(self.plan, self.tensors.announce)
        self.deferring: list[Callable[[str, Any, Callable[[Any], None]], bool]] = []
        self.unheard: Unheard | None = None
        self.logs: Callable[[bool], int] = lambda _: self.plan.step
        self.moment: Callable[[], Moment] = lambda: "within"
        self.boundary: Callable[[int], None] = lambda _: None
        self.left_out: Callable[[], bool] = lambda: False
        self.before_guard_stops: Callable[[bool], None] = lambda _: None
        self.ends = self._left = False
        self.steps = 0
        self._latest: Sequence[Scalar] = ()
        self._on_first_step = on_first_step
        self._captures_before_s = self._asked_before_s = 0.0
        self.plan.begin(0)

    def continue_at(self, step: int, evaluations: int) -> None:
        """Set the step and the evaluation at which this process continues the job."""
        self.steps = step
        self.plan.continue_at(step, evaluations)

    def evaluation(
        self, key: StepKey, scalars: Sequence[Scalar], facts: Sequence[Fact] = ()
    ) -> None:
        """Emit data from outside a training step; before the first step, it is discarded."""
        if self._outlet.is_open:
            self._outlet.put(key, Collected(), scalars, facts)

    def close_step(self, closed: ClosedStep) -> None:
        """Emit the step, and plan the next step."""
        opening_s = self._open() if not (self._outlet.is_open or self._left) else 0.0
        self.steps += 1
        plan, captures, notes, step = self.plan, self.captures, self.notes, closed.step
        step_s, own_s, told_s, told_own_s = self.times.closed()
        captures_s = captures.cost_s - self._captures_before_s
        self._captures_before_s = captures.cost_s
        light, all_asked_s = plan.is_light, plan.budgets.asked_s
        held: Sequence[RawBlock] = ()
        if (notes.holds or captures.holds) and not self.ends:
            held = self._take_held(step)
        asked_s, self._asked_before_s = all_asked_s - self._asked_before_s, all_asked_s
        now_s, before_s = time.thread_time(), self._thread_s
        busy = min(1.0, (now_s - before_s) / step_s) if step_s > 0.0 else 1.0
        self._thread_s = now_s
        self.sampler.watched(step_s - asked_s, own_s - asked_s, light=light, busy=busy)
        plan.depths.watched(step_s - asked_s, own_s - asked_s, captures_s - asked_s, light=light)
        for scalar in notes.scalars:
            if scalar.name == "loss":
                plan.depths.loss(step, scalar.of, scalar.value)
        self.times.own_s -= opening_s  # the running hook will add it when it ends
        if self.due.is_enough:
            self._report_forwards(step)
        self.due.forwards = 0
        if captures.forward.parked:
            captures.settle_forwards()
        scalars, facts = notes.take()
        self._latest = scalars
        scalars += (
            Scalar("skipped", "", float(closed.skipped)),
            Scalar("micro_batches", "", float(closed.micro_batches)),
            Scalar("step_s", "", step_s),
            Scalar("own_s", "", own_s),
        )
        key = StepKey(step=step, mode=Mode.TRAIN, mode_step=step)
        if plan.told or not light:  # nothing that could be skipped was due in a light step
            facts += plan.take_reports()
        facts += (*self.looks.close(step), *self.phases.closed(step))
        raw: list[RawBlock] = []
        if captures.has_raw:
            facts += captures.copies.take_dropped(step)
            raw = captures.take_raw()
        if self.changes.asked or self.changes.made:
            facts += self.changes.settle(step + 1)
        self._outlet.put(
            key, captures.rows.take(), scalars, facts, raw=[*raw, *held], closed=closed
        )
        plan.budgets.earn(told_s, told_own_s)
        plan.begin(step + 1)

    def _open(self) -> float:
        """Open the sinks; return the seconds that it took.

        These are reported separately, because they occur once, before the first step is counted.
        """
        self._outlet.is_open = True
        began = self.times.clock()
        self._on_first_step()
        opening_s = self.times.clock() - began
        self.times.begin()
        self.phases.begin(self.plan.step + 1)
        self.plan.budgets.begin()
        return opening_s

    def _take_held(self, step: int) -> Sequence[RawBlock]:
        """Add the held data to a step; return its copies."""
        self.notes.take_held(step)
        return self.captures.take_held()

    def next_watched(self, step: int) -> int:
        """Return the next step to observe, once `step` is over."""
        following, after = self.sampler.next_after(step), step + 1
        return following if following == after else min(following, self.plan.next_named(after))

    def rested(
        self, first: int, step: int, losses: Sequence[float] = (), rates: Sequence[float] = ()
    ) -> None:
        """Continue with `step`: the steps from `first` on were not observed.

        Args:
            first: the first step that was not observed.
            step: the next step.
            losses: losses of these steps, NaN if unknown; empty = all are unknown.
            rates: their learning rates.
        """
        seconds, own_s = self.times.rested()
        self.sampler.rested(own_s)
        self.steps += step - first
        loss_of, rate_of = _only(self._latest, "loss"), _only(self._latest, "lr")
        self.notes.observe(
            Unwatched(
                step=first,
                last_step=step - 1,
                seconds=seconds,
                losses=packed(losses) if loss_of else "",
                loss_of=loss_of,
                rates=packed(rates) if rate_of else "",
                rate_of=rate_of,
            )
        )
        self.plan.rested(step, is_full=self.sampler.is_due(step))

    def emit_logged(self, step: int) -> None:
        """Emit values that the user logged in a step that is not observed."""
        held = () if self.ends else self._take_held(step)
        scalars, self.notes.scalars = self.notes.scalars, []
        key = StepKey(step=step, mode_step=step)
        raw = [*self.captures.copies.take(), *held]
        self._outlet.put(key, Collected(), scalars, raw=raw)

    def emit_facts(
        self, *more: Fact, own: Sequence[Scalar] = (), raw: Sequence[RawBlock] = ()
    ) -> None:
        """Emit facts observed since the last step, for the final evaluation of rules."""
        rows, notes = self.captures.rows, self.notes
        if rows.device is not None:  # no consumer waits in vain if it has failed
            rows.device.settle()
        facts = (
            (*notes.facts, *self.looks.take_declarations(), *more) if self._outlet.is_open else ()
        )
        if facts:
            notes.facts, step = [], self.steps
            key = StepKey(step=step, mode=Mode.PREDICT)
            if own or raw:  # of the step in progress, which nothing ends
                key = StepKey(step=step, mode=Mode.TRAIN, mode_step=step)
            self._outlet.put(key, rows.take() if raw else Collected(), own, facts, raw=raw)

    def finish(self, ending: WorkerEnded) -> None:
        """Emit the last facts, and values logged after the last step.

        Nothing is emitted for a process that never ran a step.
        """
        if self._outlet.is_open:
            notes, captures = self.notes, self.captures
            captures.settle_forwards()
            self._report_forwards(self.steps)
            notes.facts += self.plan.take_reports(last=True)
            notes.facts += self.looks.end(self.steps)
            notes.facts += self.phases.closed(self.plan.step - 1, last=True)
            notes.facts += self.changes.settle(self.plan.step, ended=True)
            held = self._take_held(self.steps)
            own = [s for s in notes.scalars if s.name not in MEASURED]
            raw = self.tensors.with_logged([*captures.copies.take(), *held])
            self.emit_facts(ending, own=own, raw=raw)

    def leave(self) -> None:
        """Never open anything again (in a forked child)."""
        self._left = True

    def _report_forwards(self, step: int) -> None:
        """Report how many forward passes since the last step were not captured."""
        unseen = self.due.forget_forwards(step)
        if unseen is not None and any("activation" in s.kinds for s in self.plan.streams):
            self.notes.observe(unseen)


def _only(scalars: Iterable[Scalar], name: str) -> str:
    """Return the series or optimizer of a scalar if there is just one; otherwise ""."""
    found = [scalar.of for scalar in scalars if scalar.name == name]
    return found[0] if len(found) == 1 else ""
