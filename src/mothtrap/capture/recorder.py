"""The one object that adapters talk to: decides what to keep, reduces it, hands steps on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.capture.arena import Arenas
from mothtrap.capture.containment import Containment
from mothtrap.capture.governor import Governor
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.raw import Copier, RawCopies
from mothtrap.capture.selection import ESSENTIAL, RAW, Selection, Stream
from mothtrap.core.observations import AnyObservation, Blind, Dropped, WorkerEnded
from mothtrap.core.records import RawBlock, Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import FIELDS, WIDTH, merge

Rows = npt.NDArray[np.float64]
NO_FIELDS: Mapping[int, Mapping[str, float]] = MappingProxyType({})
_NONFINITE = [FIELDS.index("nan"), FIELDS.index("inf")]
_OPEN_FORWARDS = 256
"""Training forwards of one step whose outputs are kept: more are no accumulation but
inference, or steps that no optimizer makes; chosen by hand."""
_FORWARD_KINDS = ("activation", "input", "output")
"""Seen in a forward, whose mode is known only when the root returns."""
_MADE_BY_FORWARDS = (*_FORWARD_KINDS, "activation_gradient")
"""As many of them as there are forwards."""
ArrayT = TypeVar("ArrayT", contravariant=True)


class Reducer(Copier[ArrayT], Protocol[ArrayT]):
    """The arithmetic of one array library: a module of `mothtrap.statistics`."""

    def summarize(self, tensors: Sequence[ArrayT], statistics: Iterable[str]) -> Rows:
        """One row of sufficient statistics per tensor."""

    def norms(self, tensors: Sequence[ArrayT]) -> Rows:
        """Rows with count, l2, nan and inf alone, as cheaply as can be."""


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
        sinks: where closed steps go; filled by the session when the first step closes.
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
        self.unstepped: Blind | None = None
        self.containment = containment
        self._reducer, self._clock, self._on_first_step = reducer, clock, on_first_step
        self._selection = Selection(tuple(streams))
        self._governor = Governor(overhead)
        self._tensors: list[TensorInfo] = []
        self._defined: list[tuple[int, TensorInfo]] = []
        self._scalars: list[Scalar] = []
        self._observations: list[AnyObservation] = []
        self._rows: list[tuple[Sequence[int], Rows]] = []
        self._forward_rows: list[tuple[Sequence[int], Rows]] = []
        arenas = Arenas(raw_bytes)
        self._raw = RawCopies(reducer, arenas, wait_s=raw_wait_s)
        self._forward_raw = RawCopies(reducer, arenas, wait_s=raw_wait_s)
        self._train_raw: list[RawBlock] = []
        self._raw_dropped = 0
        self._fields: dict[int, dict[str, float]] = {}
        self._spent_s: dict[str, float] = {}
        self._active: dict[Mode, tuple[Stream, ...]] = {}
        self._blind: set[str] = set()
        self._forwards = 0
        self._nonfinite = False
        self._opened = self._left = False
        self._steps = 0
        self._started_s = self._closed_s = clock()
        self._own_before_s = 0.0
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
    def shed(self) -> tuple[str, ...]:
        """What the governor thinned."""
        return self._governor.shed

    def plan(self, step: int) -> None:
        """Decide which streams capture in the step that begins."""
        self._active = {}
        asked: dict[str, bool] = {}
        for mode in (Mode.TRAIN, Mode.EVAL):
            due = [s for s in self._selection.streams if s.is_due(mode, step)]
            for stream in due:
                if stream.name not in asked:
                    asked[stream.name] = stream.essential or self._governor.admits(stream.name)
            self._active[mode] = tuple(s for s in due if asked[s.name])
        self._active_names = {
            mode: frozenset(s.name for s in active) for mode, active in self._active.items()
        }
        self._any_active = self._active_names[Mode.TRAIN] | self._active_names[Mode.EVAL]

    def define(self, info: TensorInfo) -> int | None:
        """Make a tensor known; None when nothing will ever be captured of it."""
        tensor_id = len(self._tensors)
        if not self._selection.define(tensor_id, info):
            return None
        self._tensors.append(info)
        self._defined.append((tensor_id, info))
        return tensor_id

    def is_due(self, kind: str, mode: Mode = Mode.TRAIN, *, statistic: str = "") -> bool:
        """Whether anything of a kind, or one statistic of it, is captured in this step."""
        if kind in _MADE_BY_FORWARDS and self._has_enough(mode):
            return False
        due = (s for s in self._active[mode] if kind in s.kinds)
        return any(not statistic or statistic in s.statistics for s in due)

    def statistics(self, tensor_id: int, mode: Mode = Mode.TRAIN) -> frozenset[str]:
        """The statistics of a tensor that are due in this step."""
        if self._tensors[tensor_id].kind in _MADE_BY_FORWARDS and self._has_enough(mode):
            return frozenset()
        return self._selection.statistics(tensor_id, self._active_names[mode])

    def reduce(
        self, kind: str, ids: Sequence[int], tensors: Sequence[ArrayT], mode: Mode = Mode.TRAIN
    ) -> None:
        """Reduce or copy tensors of one kind as is due; those of a forward, or of an
        evaluation, wait for `commit_forward`.
        """
        if not ids:
            return
        began = self._clock()
        groups: dict[frozenset[str], list[int]] = {}
        for position, tensor_id in enumerate(ids):
            wanted = self._selection.statistics(tensor_id, self._any_active)
            groups.setdefault(wanted, []).append(position)
        waits = kind in _FORWARD_KINDS or mode is Mode.EVAL
        target = self._forward_rows if waits else self._rows
        copying_s = 0.0
        for wanted, positions in groups.items():
            if RAW in wanted:
                copying_s += self._copy(kind, waits, [(ids[p], tensors[p]) for p in positions])
            if wanted - {RAW}:
                chosen = [tensors[p] for p in positions]
                rows = self._summarize(chosen, wanted - {RAW})
                if kind == "gradient" and bool(np.any(rows[:, _NONFINITE] > 0)):
                    self._nonfinite = True
                target.append(([ids[p] for p in positions], rows))
        self._charge(kind, self._clock() - began - copying_s)

    def take_nonfinite(self) -> bool:
        """Whether a gradient reduced since the last call was not finite."""
        found, self._nonfinite = self._nonfinite, False
        return found

    def add_row(self, tensor_id: int, fields: dict[str, float], cost_s: float = 0.0) -> None:
        """Add to a tensor's row of the step in progress numbers that the adapter worked out."""
        self._fields.setdefault(tensor_id, {}).update(fields)
        self._charge(self._tensors[tensor_id].kind, cost_s)

    def begin_forward(self) -> None:
        """Forget what a forward that never returned has left behind."""
        self._forward_rows = []
        self._forward_raw.take()

    def commit_forward(self, key: StepKey) -> None:
        """Say what the forward that just returned was for; an evaluation's is handed on."""
        raw = self._forward_raw.take()
        if key.mode is Mode.TRAIN:
            self._forwards += 1
            if self._forwards <= _OPEN_FORWARDS:
                self._rows += self._forward_rows
                self._train_raw += raw
        elif (self._forward_rows or raw) and self._opened:
            self._emit(key, self._forward_rows, (), (), optimizers=(), skipped=False, raw=raw)
        self._forward_rows = []

    def scalar(self, name: str, of: str, value: float) -> None:
        """Add a number to the step in progress."""
        self._scalars.append(Scalar(name, of, value))

    def observe(self, observation: AnyObservation) -> None:
        """Add a fact to the step in progress."""
        self._observations.append(observation)

    def never_stepped(self, reason: str) -> None:
        """Say why a process that trained in some way has made no step."""
        self.unstepped = Blind(step=0, what="the training", reason=reason)

    def blind(self, step: int, what: str, reason: str) -> None:
        """Say, once, what is not observed and why."""
        if what not in self._blind:
            self._blind.add(what)
            self.observe(Blind(step=step, what=what, reason=reason))

    def evaluation(self, key: StepKey, scalars: Sequence[Scalar]) -> None:
        """Hand on the numbers of an evaluation (before the first step: nothing yet)."""
        if self._opened:
            self._emit(key, [], scalars, (), optimizers=(), skipped=False)

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
            self.own_s = self._own_before_s = 0.0
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
        self._tell_raw_dropped(closed.step)
        scalars, observations, rows = self._scalars, self._observations, self._rows
        fields, raw = self._fields, [*self._train_raw, *self._raw.take()]
        self._train_raw = []
        self._scalars, self._observations, self._rows, self._fields = [], [], [], {}
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
        for stream, cost_s in self._spent_s.items():
            self._governor.spent(stream, cost_s)
        self._spent_s.clear()
        self._governor.earn(step_s)
        self.plan(closed.step + 1)

    def finish(self, ending: WorkerEnded) -> None:
        """Hand on the last facts; nothing is said of a process that never stepped."""
        if self._opened:
            self._tell_forwards(self._steps)
            facts = (*self._observations, ending)
            key = StepKey(step=self._steps, mode=Mode.PREDICT)
            self._emit(key, [], (), facts, optimizers=(), skipped=False)

    def leave(self) -> None:
        """Never open anything again (in a forked child)."""
        self._left = True

    def _emit(
        self,
        key: StepKey,
        rows: Sequence[tuple[Sequence[int], Rows]],
        scalars: Sequence[Scalar],
        observations: Sequence[AnyObservation],
        *,
        optimizers: tuple[str, ...],
        skipped: bool,
        fields: Mapping[int, Mapping[str, float]] = NO_FIELDS,
        raw: Sequence[RawBlock] = (),
    ) -> None:
        ids, summary_TF = _with_fields(*_join(rows), fields)
        record = StepRecord(
            key=key,
            wall_s=time.time(),
            optimizers=optimizers,
            skipped=skipped,
            defined=tuple(self._defined),
            tensor_T=ids,
            summary_TF=summary_TF,
            scalars=tuple(scalars),
            observations=tuple(observations),
            raw=tuple(raw),
        )
        self._defined = []
        urgent = any(s.name == "loss" and not np.isfinite(s.value) for s in scalars)
        for sink in tuple(self.sinks):
            try:
                sink.put(record, urgent=urgent)
            except Exception as err:
                self.sinks.remove(sink)
                failure = self.containment.report("queue", err, step=key.step)
                if failure is not None:
                    self.observe(failure)

    def _has_enough(self, mode: Mode) -> bool:
        return mode is Mode.TRAIN and self._forwards >= _OPEN_FORWARDS

    def _tell_forwards(self, step: int) -> None:
        """Say how many forwards since the last step were not captured."""
        unseen, self._forwards = self._forwards - _OPEN_FORWARDS, 0
        if unseen > 0 and any("activation" in s.kinds for s in self._selection.streams):
            reason = f"more than {_OPEN_FORWARDS} forwards without an optimizer step"
            self.observe(Dropped(step=step, what="forwards", count=unseen, reason=reason))

    def _copy(self, kind: str, waits: bool, chosen: Sequence[tuple[int, ArrayT]]) -> float:
        """Copy tensors; return the seconds that it took."""
        began = self._clock()
        target = self._forward_raw if waits else self._raw
        self._raw_dropped += sum(not target.add(number, tensor) for number, tensor in chosen)
        cost_s = self._clock() - began
        self._charge(kind, cost_s, raw=True)
        return cost_s

    def _tell_raw_dropped(self, step: int) -> None:
        """Say how many tensors of this step found no memory."""
        count, self._raw_dropped = self._raw_dropped, 0
        if count:
            reason = "the memory for them (queue_mb) was still waiting to be written"
            self.observe(Dropped(step=step, what="tensors", count=count, reason=reason))

    def _summarize(self, tensors: Sequence[ArrayT], wanted: frozenset[str]) -> Rows:
        if wanted <= ESSENTIAL:
            return self._reducer.norms(tensors)
        return self._reducer.summarize(tensors, wanted)

    def _charge(self, kind: str, cost_s: float, *, raw: bool = False) -> None:
        """Book a cost on the first stream that asked for it and can be thinned."""
        self.capture_s += cost_s
        for stream in self._active[Mode.TRAIN] + self._active[Mode.EVAL]:
            asked = kind in stream.kinds and not stream.essential
            if asked and (RAW in stream.statistics or not raw):
                self._spent_s[stream.name] = self._spent_s.get(stream.name, 0.0) + cost_s
                return


def _join(
    rows: Sequence[tuple[Sequence[int], Rows]],
) -> tuple[npt.NDArray[np.uint32], Rows]:
    """Put rows together; several of one tensor (micro-batches) become one."""
    if not rows:
        return np.empty(0, np.uint32), np.empty((0, WIDTH))
    order = [i for part, _ in rows for i in part]
    ids = np.array(order, np.uint32)
    summary_TF = np.concatenate([part for _, part in rows]) if len(rows) > 1 else rows[0][1]
    if len(set(order)) == len(order):
        return ids, summary_TF
    unique, inverse = np.unique(ids, return_inverse=True)
    return unique, np.stack([merge(summary_TF[inverse == i]) for i in range(len(unique))])


def _with_fields(
    ids: npt.NDArray[np.uint32], summary_TF: Rows, fields: Mapping[int, Mapping[str, float]]
) -> tuple[npt.NDArray[np.uint32], Rows]:
    """Write columns into the rows of their tensors; a tensor without a row gets one."""
    if not fields:
        return ids, summary_TF
    new = [i for i in fields if i not in ids]
    ids = np.concatenate([ids, np.array(new, np.uint32)])
    summary_TF = np.concatenate([summary_TF, np.full((len(new), WIDTH), np.nan)])
    for row, tensor_id in enumerate(ids.tolist()):
        for name, value in fields.get(tensor_id, {}).items():
            summary_TF[row, FIELDS.index(name)] = value
    return ids, summary_TF
