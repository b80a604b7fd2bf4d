"""The one object that adapters talk to: decides what to keep, reduces it, hands steps on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from mothtrap.capture.arena import Arenas
from mothtrap.capture.changes import Changes
from mothtrap.capture.containment import Containment
from mothtrap.capture.exponents import StepExponents
from mothtrap.capture.gradientlook import GradientLooks
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.plan import COPIES, Plan
from mothtrap.capture.raw import StepCopies
from mothtrap.capture.rows import Reducer
from mothtrap.capture.selection import RAW, SHAPE, Stream
from mothtrap.capture.step_rows import NO_FIELDS, Part, StepRows
from mothtrap.capture.tensors import Tensors
from mothtrap.core.collections import Reduction
from mothtrap.core.observations import AnyObservation, Blind, Dropped, WorkerEnded
from mothtrap.core.records import RawBlock, Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.distribution import EXPONENTS
from mothtrap.statistics.summary import STATISTICS

_OPEN_FORWARDS = 256
"""Training forwards of one step whose outputs are kept: more are no accumulation but
inference, or steps that no optimizer makes; chosen by hand."""
_FORWARD_KINDS = ("activation", "input", "output")
"""Seen in a forward, whose mode is known only when the root returns."""
_MADE_BY_FORWARDS = (*_FORWARD_KINDS, "activation_gradient")
"""As many of them as there are forwards."""
_STATISTICS = frozenset(STATISTICS)
_IN_PLACE = _STATISTICS | {EXPONENTS, SHAPE}
"""What is taken from a tensor where it lies; all else takes a copy."""
ArrayT = TypeVar("ArrayT", contravariant=True)


class Sink(Protocol):
    """Where finished steps go."""

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Take a record; never blocks unless the user asked for it."""


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
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.own_s = self.capture_s = 0.0
        self.sinks: list[Sink] = []
        self.unstepped: list[AnyObservation] = []
        self.containment = containment
        self.reducer = reducer
        self._clock, self._on_first_step = clock, on_first_step
        self.tensors = Tensors()
        self.gradients = GradientLooks()
        self._plan = Plan(streams, overhead)
        self.changes = Changes(self._plan, self._announce)
        self._scalars: list[Scalar] = []
        self._observations: list[AnyObservation] = []
        self.rows = StepRows(reducer)
        self._arenas = Arenas(raw_bytes)
        self._copies = StepCopies(reducer, self._arenas, wait_s=raw_wait_s)
        self._exponents = StepExponents(self.tensors, clock)
        self._blind: set[str] = set()
        self._forwards = 0
        self._opened = self._left = False
        self._steps = 0
        self._started_s = self._closed_s = self._earned_s = clock()
        self._own_before_s = self._earned_own_s = 0.0
        self.plan(0)

    @property
    def steps(self) -> int:
        """Train steps closed so far."""
        return self._steps

    @property
    def wall_s(self) -> float:
        """Seconds since the first step's end, evaluations included, as in `own_s`."""
        return self._clock() - self._started_s

    @property
    def step(self) -> int:
        """The train step in progress."""
        return self._plan.step

    @property
    def reductions(self) -> Mapping[str, Reduction]:
        """The functions that collections in force ask for, by name."""
        return {name: f for s in self._plan.streams for name, f in s.reductions.items()}

    def plan(self, step: int) -> None:
        """Decide what is captured in the step that begins."""
        self._plan.begin(step)

    def call(self, code: str) -> None:
        """Open, from any thread, the collections that wait for a finding of a rule."""
        self._plan.call(code)

    def continue_at(self, step: int, evaluations: int) -> None:
        """Say what the job did before this process: its next step, and forward of an evaluation."""
        self._steps = step
        self._plan.evaluations_begin(evaluations)
        self.plan(step)

    def define(self, info: TensorInfo) -> int:
        """Make a tensor known."""
        tensor_id = self.tensors.add(info)
        if self._plan.define(tensor_id, info):
            self._announce(tensor_id)
        return tensor_id

    def is_due(self, kind: str, mode: Mode = Mode.TRAIN, *, statistic: str = "") -> bool:
        """Whether anything of a kind, or one statistic of it, is captured in this step."""
        if kind in _MADE_BY_FORWARDS and self._has_enough(mode):
            return False
        return self._plan.is_due(kind, mode, statistic)

    def statistics(self, tensor_id: int, mode: Mode = Mode.TRAIN) -> frozenset[str]:
        """What is due of a tensor in this step: ids of statistics, and what takes a copy."""
        if self.tensors[tensor_id].kind in _MADE_BY_FORWARDS and self._has_enough(mode):
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
        if not ids or self.rows.is_blind:
            return
        began = self._clock()
        waits = kind in _FORWARD_KINDS or mode is Mode.EVAL
        asked = mode or (None if waits else Mode.TRAIN)
        apart_s = 0.0
        arithmetic = reducer or self.reducer
        for wanted, places in self._plan.groups(ids, asked):
            numbers, chosen = ids, tensors
            if len(places) < len(ids):
                numbers, chosen = [ids[p] for p in places], [tensors[p] for p in places]
            if copies := wanted - _IN_PLACE:
                apart_s += self._copy(arithmetic, kind, asked, copies, numbers, chosen)
            if EXPONENTS in wanted:
                counting_s = self._exponents.count(arithmetic, numbers, chosen, waits=waits)
                apart_s += self._charge(kind, counting_s, asked, EXPONENTS)
            if SHAPE in wanted:
                shapes = [arithmetic.describe(tensor)[1] for tensor in chosen]
                self._observations += self.tensors.changed_shapes(self.step, numbers, shapes)
            if statistics := wanted & _STATISTICS:
                rows = self.rows.add(arithmetic, numbers, chosen, statistics, waits=waits)
                if kind == "gradient":
                    self.gradients.add(rows)
        self._charge(kind, self._clock() - began - apart_s, asked)

    def add_row(self, tensor_id: int, fields: dict[str, float], cost_s: float = 0.0) -> None:
        """Add to a tensor's row of the step in progress numbers that the adapter worked out."""
        self.rows.add_fields(tensor_id, fields)
        kind, part = self.tensors[tensor_id].kind, next(iter(fields), "")
        self._charge(kind, cost_s, Mode.TRAIN, part)

    def begin_forward(self) -> None:
        """Forget what a forward that never returned has left behind."""
        if self._opened and self._plan.evaluated:
            self._earn(self.own_s)
        self._plan.begin_forward()
        self.rows.take_forward()
        self._copies.begin_forward()
        self._exponents.begin_forward()

    def commit_forward(self, key: StepKey) -> None:
        """Say what the forward that just returned was for; an evaluation's is handed on."""
        raw, rows = self._copies.take_forward(), self.rows.take_forward()
        counted = self._exponents.take_forward()
        if key.mode is Mode.TRAIN:
            self._forwards += 1
            if self._forwards <= _OPEN_FORWARDS:
                self.rows.keep(rows)
                self._copies.keep(raw)
                self._exponents.keep(counted)
        elif (rows or raw or counted) and self._opened:
            raw = [*raw, *self._exponents.blocks(counted)]
            self._emit(key, rows, (), (), optimizers=(), skipped=False, raw=raw)
        self._plan.end_forward(key)

    def scalar(self, name: str, of: str, value: float) -> None:
        """Add a number to the step in progress."""
        self._scalars.append(Scalar(name, of, value))

    def observe(self, observation: AnyObservation) -> None:
        """Add a fact to the step in progress."""
        self._observations.append(observation)

    def never_stepped(self, reason: str) -> None:
        """Say why a process that trained in some way has made no step."""
        self.unstepped.append(Blind(step=0, what="the training", reason=reason))

    def blind(self, step: int, what: str, reason: str) -> None:
        """Say, once, what is not observed and why."""
        if what not in self._blind:
            self._blind.add(what)
            self.observe(Blind(step=step, what=what, reason=reason))

    def evaluation(
        self, key: StepKey, scalars: Sequence[Scalar], facts: Sequence[AnyObservation] = ()
    ) -> None:
        """Hand on what is known outside of a train step (before the first one: nothing yet)."""
        if self._opened:
            self._emit(key, [], scalars, facts, optimizers=(), skipped=False)

    def close_step(self, closed: ClosedStep) -> None:
        """Hand the step on and decide about the next one."""
        opening_s = 0.0
        if not self._opened and not self._left:
            self._opened = True
            began = self._clock()
            self._on_first_step()
            self._started_s = self._clock()
            # Reported apart: it is paid once, before the first step is counted.
            opening_s = self._started_s - began
            self.own_s = self._own_before_s = self._earned_own_s = 0.0
            self._earned_s = self._started_s
        self._steps += 1
        now = self._clock()
        step_s, self._closed_s = now - self._closed_s, now
        own_s, self._own_before_s = self.own_s - self._own_before_s, self.own_s
        self.own_s -= opening_s  # the hook that is running will add it when it ends
        self._tell_forwards(closed.step)
        self.scalar("skipped", "", float(closed.skipped))
        self.scalar("micro_batches", "", float(closed.micro_batches))
        self.scalar("step_s", "", step_s)
        self.scalar("own_s", "", own_s)
        key = StepKey(step=closed.step, mode=Mode.TRAIN, mode_step=closed.step)
        self._observations += self._plan.take_told()
        self._observations += self._copies.take_dropped(closed.step)
        self._observations += self.changes.settle(closed.step + 1)
        scalars, observations = self._scalars, self._observations
        (rows, fields), raw = self.rows.take(), [*self._copies.take(), *self._exponents.take()]
        self._scalars, self._observations = [], []
        self._emit(
            key,
            rows,
            scalars,
            observations,
            optimizers=closed.optimizers,
            skipped=closed.skipped,
            fields=fields,
            raw=raw,
        )
        self._earn(self._own_before_s)
        self.plan(closed.step + 1)

    def hand_on_facts(self, *more: AnyObservation) -> None:
        """Hand on what was observed since the last step, for rules that judge a last time."""
        if self.rows.device is not None:  # no consumer waits in vain where it has failed
            self.rows.device.settle()
        facts = (*self._observations, *more)
        if self._opened and facts:
            self._observations = []
            key = StepKey(step=self._steps, mode=Mode.PREDICT)
            self._emit(key, [], (), facts, optimizers=(), skipped=False)

    def finish(self, ending: WorkerEnded) -> None:
        """Hand on the last facts; nothing is said of a process that never stepped."""
        if self._opened:
            self._tell_forwards(self._steps)
            self._observations += self._plan.take_told(last=True)
            self._observations += self.changes.settle(self.step, ended=True)
            self.hand_on_facts(ending)

    def leave(self) -> None:
        """Never open anything again (in a forked child)."""
        self._left = True

    def _emit(
        self,
        key: StepKey,
        parts: Sequence[Part],
        scalars: Sequence[Scalar],
        observations: Sequence[AnyObservation],
        *,
        optimizers: tuple[str, ...],
        skipped: bool,
        fields: Mapping[int, Mapping[str, float]] = NO_FIELDS,
        raw: Sequence[RawBlock] = (),
    ) -> None:
        ids, summary_TF, pending = self.rows.joined(parts, fields, raw)
        record = StepRecord(
            key=key,
            wall_s=time.time(),
            optimizers=optimizers,
            skipped=skipped,
            defined=self.tensors.take_new(),
            tensor_T=ids,
            summary_TF=summary_TF,
            scalars=tuple(scalars),
            observations=tuple(observations),
            raw=tuple(raw),
            pending=pending,
        )
        urgent = any(s.name == "loss" and not np.isfinite(s.value) for s in scalars)
        for sink in tuple(self.sinks):
            try:
                sink.put(record, urgent=urgent)
            except Exception as err:
                self.sinks.remove(sink)
                failure = self.containment.report("queue", err, step=key.step)
                if failure is not None:
                    self.observe(failure)

    def _earn(self, own_s: float) -> None:
        """Tell the governor what has passed since it was last told."""
        now_s = self._clock()
        self._plan.earn(now_s - self._earned_s, own_s - self._earned_own_s)
        self._earned_s, self._earned_own_s = now_s, own_s

    def _has_enough(self, mode: Mode) -> bool:
        return mode is Mode.TRAIN and self._forwards >= _OPEN_FORWARDS

    def _tell_forwards(self, step: int) -> None:
        """Say how many forwards since the last step were not captured."""
        unseen, self._forwards = self._forwards - _OPEN_FORWARDS, 0
        if unseen > 0 and any("activation" in s.kinds for s in self._plan.streams):
            reason = f"more than {_OPEN_FORWARDS} forwards without an optimizer step"
            self.observe(Dropped(step=step, what="forwards", count=unseen, reason=reason))

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
        began = self._clock()
        waits = kind in _FORWARD_KINDS or mode is Mode.EVAL
        copier = self.rows.copier(reducer, tensors, self._arenas)
        for number, tensor in zip(numbers, tensors, strict=True):
            paid = purpose
            if RAW in purpose and not self._plan.pays(number, copier, tensor):
                paid = purpose - {RAW}
            if paid:
                self._copies.add(number, tensor, paid, copier, waits=waits)
        return self._charge(kind, self._clock() - began, mode, COPIES)

    def _charge(self, kind: str, cost_s: float, mode: Mode | None, part: str = "") -> float:
        self.capture_s += cost_s
        self._plan.charge(kind, cost_s, mode, part)
        return cost_s
