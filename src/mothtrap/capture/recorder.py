"""The one object that adapters talk to: decides what to keep, reduces it, hands steps on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Literal, TypeVar

from msgspec import structs

from mothtrap.capture.arena import Arenas
from mothtrap.capture.changes import Changes
from mothtrap.capture.containment import Containment
from mothtrap.capture.depths import Depths
from mothtrap.capture.forward_captures import ForwardCaptures, Purpose
from mothtrap.capture.forward_count import ForwardCount
from mothtrap.capture.gradient_look import GradientLooks
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.looks import Looks
from mothtrap.capture.plan import COPIES, Plan
from mothtrap.capture.raw import StepCopies
from mothtrap.capture.selection import SHAPE, Stream
from mothtrap.capture.sinks import Sink, put_into
from mothtrap.capture.statistics_rows import Reducer
from mothtrap.capture.step_exponents import StepExponents
from mothtrap.capture.step_rows import Collected, StepRows
from mothtrap.capture.step_sampling import StepSampler
from mothtrap.capture.step_times import StepTimes
from mothtrap.capture.tensor_registry import Tensors
from mothtrap.core import kinds
from mothtrap.core.collections import Reduction
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Blind, Unwatched
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.records import MEASURED, RawBlock, Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.distribution import EXPONENTS
from mothtrap.statistics.summary import STATISTICS

_FORWARD_KINDS = kinds.made_by("forward")
"""Seen in a forward, whose mode is known only when the root returns."""
_MADE_BY_FORWARDS = kinds.made_by("forward", "backward")
"""As many of them as there are forwards."""
_STATISTICS = frozenset(STATISTICS)
_IN_PLACE = _STATISTICS | {EXPONENTS, SHAPE}
"""Statistics that are computed in place; all others need a copy of the tensor."""
Moment = Literal["begins", "within", "between"]
"""Nothing of the step in progress was seen yet; it goes on; it was applied, and none has begun."""
ArrayT = TypeVar("ArrayT", contravariant=True)


class Recorder(Generic[ArrayT]):
    """Collects one step at a time.

    Attributes:
        own_s: seconds that mothtrap has spent on the training thread since the start;
            adapters add what their hooks take.
        capture_s: the part of it that went into statistics; the rest is the fixed cost.
        reducer: the arithmetic of the framework.
        rows: of the step in progress; adapters give them the `device`, where there is one.
        sinks: where closed steps go; filled by the session when the first step closes.
        tensors: all that were defined.
        unstepped: why the process has made no step, where it has made none.
        changes: takes what users ask of the running job.
        gradients: what the gradients reduced in this step were found to be.
        rests: says which steps are to be watched.
        clock: returns seconds.
        logs: called when users log something, with whether a step is known to begin with it;
            returns the step that it belongs to.
        moment: says where in a step the training is; see `Moment`.
        ends: the step that is closed next is the last one of this process.
        looks: the facts that are needed, and the steps in which observers looked for them.
        boundary: called between two steps with the number of the next; may end the training.
        deferring: called with name, value and taker of what users log; True: the value comes
            later, when a program that it was given in has run.
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
        self.own_s = self.capture_s = self._step_captures_s = self._asked_before_s = 0.0
        self.sinks: list[Sink] = []
        self.unstepped: list[Fact] = []
        self.containment = containment
        self.reducer = reducer
        self.clock = clock
        self._on_first_step = on_first_step
        self.tensors, self.looks = Tensors(), looks or Looks()
        self.deferring: list[Callable[[str, Any, Callable[[Any], None]], bool]] = []
        self.gradients = GradientLooks()
        self._plan, self.sampler = Plan(streams, overhead), StepSampler(overhead)
        self.logs: Callable[[bool], int] = lambda _: self.step
        self.moment: Callable[[], Moment] = lambda: "within"
        self.ends = False
        self._held_scalars: list[Scalar] = []
        self._held_facts: list[Fact] = []
        self.boundary: Callable[[int], None] = lambda _: None
        self.changes = Changes(self._plan, self._announce)
        self._scalars: list[Scalar] = []
        self._observations: list[Fact] = []
        self.rows, self._arenas = StepRows(reducer), Arenas(raw_bytes)
        self._copies = StepCopies(reducer, self._arenas, wait_s=raw_wait_s)
        self._exponents, self._times = StepExponents(self.tensors, clock), StepTimes(clock)
        self._blind, self._forwards = set[str](), ForwardCount()
        self._forward = ForwardCaptures(self.rows, self._copies, self._exponents)
        self._steps, self._opened, self._left, self._has_raw = 0, False, False, False
        self._plan.begin(0)

    @property
    def asked_s(self) -> float:
        """Seconds that captures have taken that users asked for; a part of `capture_s`."""
        return self._plan.asked_s

    @property
    def depths(self) -> Depths:
        """Says which steps are watched in full."""
        return self._plan.depths

    @property
    def is_light(self) -> bool:
        """Return whether the step in progress is a light one."""
        return self._plan.is_light

    @property
    def next_is_light(self) -> bool:
        """Return whether the step after it is, so far as is known."""
        return self._plan.next_is_light

    @property
    def steps(self) -> int:
        """Train steps closed so far."""
        return self._steps

    @property
    def wall_s(self) -> float:
        """Seconds since the first step's end, evaluations included, as in `own_s`."""
        return self._times.wall_s

    @property
    def step(self) -> int:
        """The train step in progress."""
        return self._plan.step

    @property
    def reductions(self) -> Mapping[str, tuple[str, Reduction]]:
        """Return the reductions to be computed from copies, by purpose; see `Plan.reductions`."""
        return self._plan.reductions

    def call(self, code: str) -> None:
        """Open, from any thread, the collections that wait for a finding of a rule."""
        self._plan.call(code)

    def continue_at(self, step: int, evaluations: int) -> None:
        """Say what the job did before this process: its next step, and forward of an evaluation."""
        self._steps = step
        self._plan.evaluations_begin(evaluations)
        self._plan.continue_at(step)

    def define(self, info: TensorInfo) -> int:
        """Make a tensor known."""
        tensor_id = self.tensors.add(info)
        if self._plan.define(tensor_id, info):
            self._announce(tensor_id)
        return tensor_id

    def due_kinds(self, mode: Mode = Mode.TRAIN) -> frozenset[str]:
        """The kinds of tensors of which anything is captured in this step."""
        is_enough = mode is Mode.TRAIN and self._forwards.is_enough
        return self._plan.kinds[mode] - (_MADE_BY_FORWARDS if is_enough else frozenset())

    def is_due(self, kind: str, mode: Mode = Mode.TRAIN, *, statistic: str = "") -> bool:
        """Return whether anything of a kind, or one statistic of it, is captured in this step."""
        kinds = self.due_kinds(mode) if self._forwards.is_enough else self._plan.kinds[mode]
        return kind in kinds and (not statistic or self._plan.is_due(kind, mode, statistic))

    def due_statistics(self, kind: str, mode: Mode = Mode.TRAIN) -> frozenset[str]:
        """Return the statistics due in this step for any tensor of a kind; see `statistics`."""
        return self._plan.due(kind, mode) if kind in self.due_kinds(mode) else frozenset()

    def statistics(self, tensor_id: int, mode: Mode = Mode.TRAIN) -> frozenset[str]:
        """Return the statistics due for a tensor in this step, and purposes that take a copy."""
        if self._forwards.is_enough and self.tensors[tensor_id].kind not in self.due_kinds(mode):
            return frozenset()
        return self._plan.wanted(tensor_id, mode)

    def reduce(
        self,
        kind: str,
        ids: Sequence[int],
        tensors: Sequence[ArrayT],
        mode: Mode | None = None,
        *,
        reducer: Reducer[ArrayT] | None = None,
    ) -> None:
        """Reduce or copy tensors of one kind as is due.

        Args:
            kind: of all of them; those of a forward, or of an evaluation, wait for
                `commit_forward`.
            ids: their numbers.
            tensors: are read now, and not held.
            mode: None = train, or what the forward turns out to be.
            reducer: knows these tensors, where that is not the framework's own.
        """
        if not ids or (self.rows.device is not None and self.rows.device.is_capturing()):
            return
        began = self.clock()
        waits = kind in _FORWARD_KINDS or mode is Mode.EVAL
        self._forward.is_any = self._forward.is_any or waits
        asked = mode or (None if waits else Mode.TRAIN)
        arithmetic, apart_s = reducer or self.reducer, 0.0
        for wanted, places in self._plan.groups(ids, asked):
            numbers, chosen = ids, tensors
            if len(places) < len(ids):
                numbers, chosen = [ids[p] for p in places], [tensors[p] for p in places]
            self._has_raw = self._has_raw or not wanted <= _STATISTICS
            if copies := wanted - _IN_PLACE:
                apart_s += self._copy(arithmetic, kind, asked, copies, numbers, chosen)
            if EXPONENTS in wanted:
                counting_s = self._exponents.count(arithmetic, numbers, chosen, waits=waits)
                apart_s += self.charge(kind, counting_s, asked, EXPONENTS)
            if SHAPE in wanted:
                shapes = [arithmetic.describe(tensor)[1] for tensor in chosen]
                self._observations += self.tensors.changed_shapes(self.step, numbers, shapes)
            if statistics := wanted & _STATISTICS:
                rows = self.rows.add(arithmetic, numbers, chosen, statistics, waits=waits)
                if kind == "gradient":
                    self.gradients.add(rows)
        self.charge(kind, self.clock() - began - apart_s, asked)

    def add_row(self, tensor_id: int, fields: dict[str, float], cost_s: float = 0.0) -> None:
        """Add to a tensor's row of the step in progress numbers that the adapter worked out."""
        self.rows.add_fields(tensor_id, fields)
        self.charge(self.tensors[tensor_id].kind, cost_s, Mode.TRAIN, next(iter(fields), ""))

    def charge(self, kind: str, cost_s: float, mode: Mode | None, part: str = "") -> float:
        """Book, and return, what captures of a kind have taken; see `Plan.charge`."""
        self.capture_s += cost_s
        self._step_captures_s += cost_s
        self._plan.charge(kind, cost_s, mode, part)
        return cost_s

    def begin_forward(self) -> None:
        """Forget what a forward that never returned has left behind."""
        if self._plan.evaluated is not None:
            if self._opened:
                self._plan.earn(*self._times.passed(self.own_s))
            self._plan.begin_forward()
        if self._forward.is_any:
            self._forward.forget()

    @property
    def holds_forward(self) -> bool:
        """Return whether anything was captured of the forward that runs, or has just returned."""
        return self._forward.is_any

    def commit_forward(self, key: StepKey, purpose: Purpose | None = None) -> None:
        """Say what the forward that just returned was for; an evaluation's is handed on.

        Args:
            key: training, where only a backward can show that it was not.
            purpose: asked when the step is over, for a forward that seems to be training.
        """
        is_training = key.mode is Mode.TRAIN
        is_captured = self._forwards.add() if is_training else self._opened
        if self._forward.is_any and not is_captured:
            self._forward.forget()
        elif self._forward.is_any and is_training:
            self._forward.keep() if purpose is None else self._forward.park(purpose)
            self._has_raw = True
        elif self._forward.is_any:
            rows, raw = self._forward.take()
            if rows or raw:
                self._emit(key, Collected(parts=rows), (), (), raw=raw)
        if not is_training:
            self._plan.end_forward(key)

    def _settle_forwards(self) -> None:
        """Find out which forwards of the step were training; hand the others on."""
        for key, rows, raw in self._forward.settle():
            if rows or raw:
                self._emit(key, Collected(parts=rows), (), (), raw=raw)

    def scalar(self, name: str, of: str, value: float, *, may_be_next: bool = False) -> None:
        """Add a number to the step in progress; or to the next one, where there comes none."""
        target = self._held_scalars if may_be_next else self._scalars
        target.append(Scalar(name, of, value))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Add copies that are made inside to the step in progress, or else to the next one."""
        self._copies.are_held = True
        try:
            yield
        finally:
            self._copies.are_held = False

    def _take_held(self, step: int) -> Sequence[RawBlock]:
        """Make what was held part of a step; return its copies."""
        self._scalars += self._held_scalars
        self._observations += (structs.replace(fact, step=step) for fact in self._held_facts)
        self._held_scalars, self._held_facts = [], []
        return self._copies.take_held()

    def scalars(self, name: str, of: Sequence[str], values: Sequence[float]) -> None:
        """Add a number of each of some owners."""
        self._scalars += [Scalar(name, o, value) for o, value in zip(of, values, strict=True)]

    def observe(self, observation: Fact, *, may_be_next: bool = False) -> None:
        """Add a fact to the step in progress; or to the next one, where there comes none."""
        (self._held_facts if may_be_next else self._observations).append(observation)

    def never_stepped(self, reason: str) -> None:
        """Say why a process that trained in some way has made no step."""
        self.unstepped.append(Blind(step=0, what="the training", reason=reason))

    def blind(self, step: int, what: str, reason: str) -> None:
        """Say, once, what is not observed and why."""
        if what not in self._blind:
            self._blind.add(what)
            self.observe(Blind(step=step, what=what, reason=reason))

    def evaluation(
        self, key: StepKey, scalars: Sequence[Scalar], facts: Sequence[Fact] = ()
    ) -> None:
        """Hand on what is known outside of a train step (before the first one: nothing yet)."""
        if self._opened:
            self._emit(key, Collected(), scalars, facts)

    def close_step(self, closed: ClosedStep) -> None:
        """Hand the step on and decide about the next one."""
        opening_s = 0.0
        if not self._opened and not self._left:
            self._opened = True
            began = self.clock()
            self._on_first_step()
            # Reported apart: it is paid once, before the first step is counted.
            opening_s, self.own_s = self.clock() - began, 0.0
            self._times.begin()
            self._plan.open()
        self._steps += 1
        step_s, own_s = self._times.closed(self.own_s)
        own_before_s = self.own_s
        captures_s, self._step_captures_s = self._step_captures_s, 0.0
        light = self._plan.is_light
        held = [] if self.ends else self._take_held(closed.step)
        asked_s, self._asked_before_s = self.asked_s - self._asked_before_s, self.asked_s
        self.sampler.watched(step_s - asked_s, own_s - asked_s, light=light)
        self._plan.depths.watched(
            step_s - asked_s, own_s - asked_s, captures_s - asked_s, light=light
        )
        for scalar in self._scalars:
            if scalar.name == "loss":
                self._plan.depths.signal(closed.step, scalar.of, scalar.value)
        self.own_s -= opening_s  # the hook that is running will add it when it ends
        self._tell_forwards(closed.step)
        self._settle_forwards()
        self._scalars += (
            Scalar("skipped", "", float(closed.skipped)),
            Scalar("micro_batches", "", float(closed.micro_batches)),
            Scalar("step_s", "", step_s),
            Scalar("own_s", "", own_s),
        )
        key = StepKey(step=closed.step, mode=Mode.TRAIN, mode_step=closed.step)
        self._observations += (*self._plan.take_told(), *self.looks.close(closed.step))
        raw: list[RawBlock] = []
        if self._has_raw:
            self._observations += self._copies.take_dropped(closed.step)
            raw = [*self._copies.take(), *self._exponents.take()]
            self._has_raw = bool(raw)  # the next one is asked, too: it goes by what this one took
        self._observations += self.changes.settle(closed.step + 1)
        scalars, observations = self._scalars, self._observations
        self._scalars, self._observations = [], []
        self._emit(key, self.rows.take(), scalars, observations, raw=[*raw, *held], closed=closed)
        self._plan.earn(*self._times.passed(own_before_s))
        self._plan.begin(closed.step + 1)

    def next_watched(self, step: int) -> int:
        """Return the next step that is to be watched, once `step` is over."""
        following, after = self.sampler.next_after(step), step + 1
        return following if following == after else min(following, self._plan.next_named(after))

    def rested(self, first: int, step: int) -> None:
        """Go on with `step`: those from `first` on were not watched."""
        seconds, own_s = self._times.closed(self.own_s)
        self.sampler.rested(own_s)
        self._steps += step - first
        self.observe(Unwatched(step=first, last_step=step - 1, seconds=seconds))
        self._plan.rested(step)

    def hand_on_logged(self, step: int) -> None:
        """Hand on what users have logged in a step that is not watched."""
        held = [] if self.ends else self._take_held(step)
        scalars, self._scalars = self._scalars, []
        key = StepKey(step=step, mode_step=step)
        self._emit(key, Collected(), scalars, (), raw=[*self._copies.take(), *held])

    def hand_on_facts(
        self, *more: Fact, own: Sequence[Scalar] = (), raw: Sequence[RawBlock] = ()
    ) -> None:
        """Hand on what was observed since the last step, for rules that judge a last time."""
        if self.rows.device is not None:  # no consumer waits in vain where it has failed
            self.rows.device.settle()
        facts = (*self._observations, *self.looks.take_said(), *more) if self._opened else ()
        if facts:
            self._observations, step = [], self._steps
            key = StepKey(step=step, mode=Mode.PREDICT)
            if own or raw:  # of the step in progress, which nothing ends
                key = StepKey(step=step, mode=Mode.TRAIN, mode_step=step)
            self._emit(key, self.rows.take() if raw else Collected(), own, facts, raw=raw)

    def finish(self, ending: WorkerEnded) -> None:
        """Hand on the last facts, and what was logged after the last step.

        Nothing is said of a process that never stepped.
        """
        if self._opened:
            self._settle_forwards()
            self._tell_forwards(self._steps)
            self._observations += self._plan.take_told(last=True)
            self._observations += self.looks.end(self._steps)
            self._observations += self.changes.settle(self.step, ended=True)
            held = self._take_held(self._steps)
            own = [s for s in self._scalars if s.name not in MEASURED]
            raw = self.tensors.with_logged([*self._copies.take(), *held])
            self.hand_on_facts(ending, own=own, raw=raw)

    def leave(self) -> None:
        """Never open anything again (in a forked child)."""
        self._left = True

    def _emit(
        self,
        key: StepKey,
        collected: Collected,
        scalars: Sequence[Scalar],
        observations: Sequence[Fact],
        *,
        raw: Sequence[RawBlock] = (),
        closed: ClosedStep | None = None,
    ) -> None:
        ids, summary_TF, pending = self.rows.joined(collected, raw)
        record = StepRecord(
            key=key,
            wall_s=time.time(),
            optimizers=closed.optimizers if closed else (),
            skipped=closed is not None and closed.skipped,
            defined=self.tensors.take_new(),
            tensor_T=ids,
            summary_TF=summary_TF,
            scalars=tuple(scalars),
            observations=tuple(observations),
            raw=tuple(raw),
            pending=pending,
        )
        for failure in put_into(self.sinks, record, self.containment):
            self.observe(failure)

    def _tell_forwards(self, step: int) -> None:
        """Say how many forwards since the last step were not captured."""
        unseen = self._forwards.take(step)
        if unseen is not None and any("activation" in s.kinds for s in self._plan.streams):
            self.observe(unseen)

    def _announce(self, tensor_id: int) -> None:
        streams = self._plan.matching(tensor_id)
        self.tensors.announce(tensor_id, frozenset().union(*(s.statistics for s in streams)))

    def _copy(
        self,
        reducer: Reducer[ArrayT],
        kind: str,
        mode: Mode | None,
        purpose: frozenset[str],
        numbers: Sequence[int],
        tensors: Sequence[ArrayT],
    ) -> float:
        """Copy tensors; return the seconds that it took."""
        began = self.clock()
        waits = kind in _FORWARD_KINDS or mode is Mode.EVAL
        copier = self.rows.copier(reducer, tensors, self._arenas)
        wanted = self._plan.paid(purpose, numbers, tensors, copier)
        self._copies.add_all(wanted, copier, waits=waits)
        return self.charge(kind, self.clock() - began, mode, COPIES)
