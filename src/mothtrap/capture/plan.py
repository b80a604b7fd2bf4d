"""Plan of the step in progress: the statistics and copies that are due."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from mothtrap.capture.budgets import Budgets
from mothtrap.capture.depths import ALL, Depths
from mothtrap.capture.raw import Copier, Wanted
from mothtrap.capture.requested import requested
from mothtrap.capture.selection import RAW, Groups, Selection, Stream
from mothtrap.capture.thinning import Thinning
from mothtrap.capture.turns import Turns
from mothtrap.core.collections import Reduction
from mothtrap.core.control_requests import CaptureRequest
from mothtrap.core.facts.captures import Blind, CaptureChanged, Dropped, FullSteps, Thinned
from mothtrap.core.schedule import FAR
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo

ArrayT = TypeVar("ArrayT")
MODES = tuple(Mode)
COPIES = "copies"
"""The part of a cost that is for copies."""


class Plan:
    """Joins schedules, findings, budgets and the governor into one answer per step.

    Belongs to the training thread, but for `call`, which may come from any.

    Attributes:
        step: the train step in progress.
        depths: says which steps are watched in full.
        is_light: the step in progress is not watched in full.
        next_is_light: neither is the one after it, so far as is known.
        active: by mode the streams that capture in this step.
        kinds: by mode the kinds of tensors of which these capture anything.
        evaluated: the forward of an evaluation that was the last to end in this step, if any.

    Args:
        streams: all reasons to capture.
        overhead: share of the training time, see `Governor`.
    """

    def __init__(self, streams: Sequence[Stream], overhead: float) -> None:
        self.step = 0
        self.depths, self.is_light, self.next_is_light = Depths(overhead), False, False
        self._told_every = ALL
        self.active: dict[Mode, tuple[Stream, ...]] = dict.fromkeys(MODES, ())
        self.kinds: dict[Mode, frozenset[str]] = dict.fromkeys(MODES, frozenset())
        self.evaluated: StepKey | None = None
        self._selection = Selection(tuple(streams))
        self._budgets, self._thinning = Budgets(overhead), Thinning()
        self._mode_steps = dict.fromkeys(MODES, 0)
        self._admitted: dict[str, bool] = {}
        self._names: dict[Mode, frozenset[str]] = dict.fromkeys(MODES, frozenset())
        self._turns: dict[Mode, Turns] = {}
        self._any_names: frozenset[str] = frozenset()
        self._payers: dict[tuple[str, str, Mode], tuple[Stream, ...]] = {}
        self._thinnable: dict[Mode, list[tuple[Stream, bool]]] = {mode: [] for mode in MODES}
        self._called: deque[str] = deque()
        self._open_until: dict[str, int] = {}
        self._used_bytes: dict[str, int] = {}
        self._exhausted: set[str] = set()
        self._has_ending = False
        self._told: list[Dropped | CaptureChanged | FullSteps] = []
        self._for_light: tuple[Stream, ...] = ()
        self._for_users: tuple[Stream, ...] = ()
        self._schedule([m for m in MODES if any(m in s.schedules for s in streams)])

    @property
    def asked_s(self) -> float:
        """Seconds that captures which users asked for have taken so far."""
        return self._budgets.asked_s

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All reasons to capture that are in force, due or not."""
        return self._selection.streams

    @property
    def reductions(self) -> Mapping[str, tuple[str, Reduction]]:
        """The functions that collections in force ask for: own name and function, by purpose."""
        asked = [(s, name) for s in self.streams for name in s.reductions]
        own = {name: name.removeprefix(f"{s.collection}.") for s, name in asked}
        return {name: (own[name], s.reductions[name]) for s, name in asked}

    # Steps

    def open(self) -> None:
        """Count costs from now on: the first step is closed."""
        self._budgets.begin()

    def begin(self, step: int) -> None:
        """Decide what is captured in the train step that begins."""
        self.step = self._mode_steps[Mode.TRAIN] = step
        self._admitted.clear()
        if self._has_ending:
            self._leave_what_is_over()
        while self._called:
            self._open(self._called.popleft())
        if step > self.depths.full_at:
            self._look_ahead(step)
        self.is_light = step < self.depths.full_at and not self._is_asked_for(step)
        if self.is_light:
            self.next_is_light = step + 1 < self.depths.full_at
            self.next_is_light = self.next_is_light and not self._is_asked_for(step + 1)
            self._thinnable[Mode.TRAIN] = []
            if self.active[Mode.TRAIN] is not self._for_light:
                self._activate(Mode.TRAIN, self._for_light)
            return
        self.next_is_light = not self.depths.is_full(step + 1)
        for mode in self._turns:
            self._decide(mode)

    def continue_at(self, step: int) -> None:
        """Go on with a step that is the first one of this process."""
        self.depths.begin(step)
        self.begin(step)

    def begin_forward(self) -> None:
        """Decide what is captured in the next forward, when one of an evaluation is over."""
        key, self.evaluated = self.evaluated, None
        if key is not None:
            self._mode_steps[key.mode] = key.mode_step + 1
            if key.mode in self._turns:
                self._admitted.clear()
                self._decide(key.mode)

    def _look_ahead(self, step: int) -> None:
        """Find out which step is the next full one; tell where that goes by another rule."""
        self.depths.go_on(step)
        every = self.depths.every(step)
        if every != self._told_every:
            self._told_every = every
            self._told.append(FullSteps(step=step, every=1 if every == ALL else every))

    def _is_asked_for(self, step: int) -> bool:
        """Return whether a user wants values of a step."""
        for stream in self._for_users:
            schedule = stream.schedules[Mode.TRAIN]
            if self._is_open(stream) and (stream.on or schedule.is_due(step)):
                return True
        return False

    def evaluations_begin(self, mode_step: int) -> None:
        """Count forwards of evaluations from `mode_step` on."""
        self.evaluated, self._mode_steps[Mode.EVAL] = None, mode_step

    def end_forward(self, key: StepKey) -> None:
        """Keep what is decided of an evaluation until the next one: its loss is still to come."""
        self.evaluated = key
        self._thinning.count(self._thinnable[key.mode], key.mode, self.step)

    def earn(self, step_s: float, own_s: float) -> None:
        """Tell the governor what a step took, or a forward of an evaluation, and its captures.

        Args:
            step_s: since it was last told.
            own_s: the part of it that mothtrap took.
        """
        self._budgets.earn(step_s, own_s)

    def charge(self, kind: str, cost_s: float, mode: Mode | None, part: str = "") -> None:
        """Book a cost, in equal parts, on the streams that asked for it.

        Needs of rules that are never thinned pay nothing.

        Args:
            kind: of the tensors.
            cost_s: seconds.
            mode: that they were captured in; None = train, or what else asked for them.
            part: `COPIES`, or the one statistic that it was of; else of any.
        """
        for asked in MODES if mode is None else (mode,):
            what = kind, part, asked
            payers = self._payers.get(what)
            if payers is None:
                payers = self._payers[what] = tuple(
                    stream
                    for stream in self.active[asked]
                    if kind in stream.kinds and stream.copies == (part == COPIES)
                    if stream.is_asked or not stream.essential
                    if part in ("", COPIES, *stream.statistics)
                )
            if payers:
                for stream in payers:
                    self._budgets.charge(stream, cost_s / len(payers))
                return

    # Questions

    def define(self, tensor_id: int, info: TensorInfo) -> bool:
        """Make a tensor known; whether a stream wants it, as things stand."""
        return self._selection.define(tensor_id, info)

    def matching(self, tensor_id: int) -> tuple[Stream, ...]:
        """The streams that want a tensor at one time or another."""
        return self._selection.matching(tensor_id)

    def is_due(self, kind: str, mode: Mode, statistic: str = "") -> bool:
        """Return whether anything of a kind, or one statistic of it, is captured in this step."""
        if not statistic:
            return kind in self.kinds[mode]
        for stream in self.active[mode]:
            if kind in stream.kinds and statistic in stream.statistics:
                return True
        return False

    def due(self, kind: str, mode: Mode) -> frozenset[str]:
        """Return the statistics due in this step for any tensor of a kind."""
        streams = [stream for stream in self.active[mode] if kind in stream.kinds]
        return frozenset().union(*(stream.statistics for stream in streams))

    def wanted(self, tensor_id: int, mode: Mode | None) -> frozenset[str]:
        """Return the statistics due for a tensor in this step; mode None: in any mode."""
        names = self._any_names if mode is None else self._names[mode]
        return self._selection.statistics(tensor_id, names)

    def groups(self, tensor_ids: Sequence[int], mode: Mode | None) -> Groups:
        """Group tensors by the statistics due in this step, each with its indices in the list."""
        names = self._any_names if mode is None else self._names[mode]
        return self._selection.groups(tensor_ids, names)

    def paid(
        self,
        purpose: frozenset[str],
        tensor_ids: Sequence[int],
        tensors: Sequence[ArrayT],
        copier: Copier[ArrayT],
    ) -> list[Wanted[ArrayT]]:
        """Return of some copies those that are made, and what for; some lack a budget."""
        found = []
        for number, tensor in zip(tensor_ids, tensors, strict=True):
            refused = RAW in purpose and not self._pays(number, copier, tensor)
            if left := purpose - {RAW} if refused else purpose:
                found.append((number, tensor, left))
        return found

    def _pays(self, tensor_id: int, copier: Copier[ArrayT], tensor: ArrayT) -> bool:
        """Book a copy on the budgets that it counts against; whether one has room for it."""
        asking = [
            stream
            for stream in self._selection.matching(tensor_id)
            if RAW in stream.statistics and stream.name in self._any_names
        ]
        limited = [stream for stream in asking if stream.budget_bytes is not None]
        if not limited:
            return True
        size = copier.describe(tensor)[2]
        poor = [stream for stream in limited if not self._has_left(stream, size)]
        for stream in limited:
            if stream not in poor:
                self._used_bytes[stream.name] = self._used_bytes.get(stream.name, 0) + size
            elif stream.name not in self._exhausted:
                self._exhausted.add(stream.name)
                self._drop(stream, 1, f"its budget of {(stream.budget_bytes or 0) / 2**20:g} MB")
        return len(poor) < len(asking)

    # Changes

    def call(self, code: str) -> None:
        """Open what waits for a finding of a rule, from the next step on."""
        self._called.append(code)

    def change(self, request: CaptureRequest, step: int) -> list[int]:
        """Put collections in force from `step` on, and others out.

        Args:
            request: a sound one; what is in force already is replaced.
            step: the first step that it counts for.

        Returns:
            The known tensors that anything in force wants.
        """
        gone = {*request.add, *request.remove}
        kept = [s for s in self.streams if not s.collection or s.collection not in gone]
        for stream in self.streams:
            if stream.collection in gone:
                self._forget(stream.name)
        first = {mode: self._next(mode) for mode in MODES} | {Mode.TRAIN: step}
        added = [
            stream
            for name, collection in request.add.items()
            for stream in requested(name, collection, first, request.for_steps)
        ]
        self._has_ending = self._has_ending or request.for_steps is not None
        wanted = self._selection.change((*kept, *added))
        self._schedule(MODES)  # also those in which something is due no more
        return wanted

    def next_named(self, step: int) -> int:
        """Return the first step from `step` on that was requested; `FAR` if there is none.

        A user asks, a schedule that names it, or a finding.
        """
        called = any(until > step for until in self._open_until.values())
        if called or self._called:
            return step
        training = [stream for stream in self.streams if Mode.TRAIN in stream.schedules]
        return min((_next_named(stream, step) for stream in training), default=FAR)

    def rested(self, step: int) -> None:
        """Go on with `step`: those before were not watched, to pay for those that are."""
        self._budgets.rested()
        self.depths.look_at(step)
        self.begin(step)

    def take_told(
        self, *, last: bool = False
    ) -> list[Dropped | CaptureChanged | Thinned | Blind | FullSteps]:
        """Return what was given up, and what has come to its end, when a step closes.

        Args:
            last: no step does, nothing more will come: tell also of what is still being
                thinned, and of collections that never found a tensor.
        """
        if self.is_light and not last:  # nothing was due that could be thinned
            told, self._told = self._told, []
            return list(told)
        unfound: list[Blind] = []
        if last:
            reason = "no tensor that was seen matches it, or its schedule named no step of the run"
            for name in self._selection.idle_collections():
                unfound.append(Blind(step=self.step, what=f"collection {name}", reason=reason))
        else:
            self._thinning.count(self._thinnable[Mode.TRAIN], Mode.TRAIN, self.step)
        told, self._told = self._told, []
        return [*told, *self._thinning.take(self.step, last=last), *unfound]

    def _next(self, mode: Mode) -> int:
        """The next step of a mode."""
        key = self.evaluated
        return key.mode_step + 1 if key and key.mode is mode else self._mode_steps[mode]

    def _leave_what_is_over(self) -> None:
        """Put out of force what was asked for some steps that have passed."""
        steps = {mode: self._next(mode) for mode in MODES}
        over = {s.name for s in self.streams if s.ends and s.is_over(steps)}
        if not over:
            return
        for name in over:
            self._forget(name)
        self._selection.change(tuple(s for s in self.streams if s.name not in over))
        self._schedule(MODES)
        self._has_ending = any(stream.ends for stream in self.streams)
        left = in_force(self.streams)
        self._told.append(
            CaptureChanged(step=self.step, request="", from_step=self.step, collections=left)
        )

    def _forget(self, name: str) -> None:
        self._exhausted.discard(name)
        self._used_bytes.pop(name, None)
        self._open_until.pop(name, None)

    def _schedule(self, modes: Iterable[Mode]) -> None:
        """Find out when the streams in force are due."""
        self._turns = {mode: Turns(self.streams, mode) for mode in modes}
        training = [stream for stream in self.streams if Mode.TRAIN in stream.schedules]
        self._for_light = tuple(stream for stream in training if stream.in_light_steps)
        self._for_users = tuple(stream for stream in training if stream.by_user)

    def _decide(self, mode: Mode) -> None:
        """Choose the streams that capture.

        The governor is asked once a step, and again for each forward of an evaluation.
        """
        found, thinnable = [], []
        for stream in self._turns[mode].due(self._mode_steps[mode]):
            if (stream.on or self._exhausted) and not self._is_open(stream):
                continue
            admitted = stream.essential or self._admitted.get(stream.name)
            if admitted is None:
                admitted = self._budgets.admits(stream)
                self._admitted[stream.name] = admitted
            if not stream.essential:
                thinnable.append((stream, admitted))
            if admitted:
                found.append(stream)
        self._thinnable[mode] = thinnable
        self._activate(mode, tuple(found))

    def _activate(self, mode: Mode, active: tuple[Stream, ...]) -> None:
        if active != self.active[mode]:
            self.active[mode] = active
            self._payers.clear()
            self.kinds[mode] = frozenset(kind for stream in active for kind in stream.kinds)
            self._names[mode] = frozenset(stream.name for stream in active)
            self._any_names = frozenset().union(*self._names.values())

    def _is_open(self, stream: Stream) -> bool:
        if stream.name in self._exhausted:
            return False
        if not stream.on or stream.ends:
            return True
        return self.step < self._open_until.get(stream.name, 0)

    def _open(self, code: str) -> None:
        for stream in self.streams:
            if stream.is_called_by(code):
                self._open_until[stream.name] = self.step + stream.for_steps

    def _has_left(self, stream: Stream, size: int) -> bool:
        used = self._used_bytes.get(stream.name, 0)
        return stream.budget_bytes is None or used + size <= stream.budget_bytes

    def _drop(self, stream: Stream, count: int, spent: str) -> None:
        self._told.append(
            Dropped(step=self.step, what=stream.name, count=count, reason=f"{spent} is used up")
        )


def _next_named(stream: Stream, step: int) -> int:
    schedule = stream.schedules[Mode.TRAIN]
    due = stream.collection and not stream.on
    return schedule.next_due(step).start if due else schedule.next_named(step)


def in_force(streams: Sequence[Stream]) -> tuple[str, ...]:
    """Return the names of the collections that some streams serve."""
    return tuple(dict.fromkeys(stream.collection for stream in streams if stream.collection))
