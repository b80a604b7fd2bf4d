"""Plan of captures: the streams that are due at each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from mothtrap.capture.budgets import Budgets
from mothtrap.capture.copy_budgets import CopyBudgets
from mothtrap.capture.depths import ALL, Depths
from mothtrap.capture.due import MODES, Due
from mothtrap.capture.requested import requested
from mothtrap.capture.selection import Selection, Stream
from mothtrap.capture.thinning import Thinning
from mothtrap.capture.turns import Turns
from mothtrap.core.collections import Reduction
from mothtrap.core.control_requests import CaptureRequest
from mothtrap.core.facts.captures import Blind, CaptureChanged, Dropped, FullSteps, Thinned
from mothtrap.core.schedule import FAR
from mothtrap.core.steps import Mode, StepKey


class Plan:
    """Combines schedules, findings, budgets and the governor into one answer per step: `due`.

    Used on the training thread, except `call`, which may be called on any thread.

    Attributes:
        step: the train step in progress.
        depths: determines which steps are observed in full.
        is_light: the step in progress is not watched in full.
        next_is_light: the next step is also light, as far as is known.
        due: data to capture in this step.
        selection: all streams, and the tensors that they match.
        evaluated: the last evaluation forward pass that ended in this step, if any.
        budgets: time budgets, which steps pay into.
        copy_budgets: limits in bytes.
        told: skipped captures and ended collections since a step closed.

    Args:
        streams: all reasons to capture.
        overhead: share of the training time, see `Governor`.
    """

    def __init__(self, streams: Sequence[Stream], overhead: float) -> None:
        self.step = 0
        self.depths, self.is_light, self.next_is_light = Depths(overhead), False, False
        self._told_every = ALL
        self.evaluated: StepKey | None = None
        self.selection = Selection(tuple(streams))
        self.budgets, self._thinning = Budgets(overhead), Thinning()
        self.due = Due(self.selection, self.budgets)
        self.copy_budgets = CopyBudgets(self.selection, lambda lost: self.told.append(lost))
        self._mode_steps = dict.fromkeys(MODES, 0)
        self._admitted: dict[str, bool] = {}
        self._turns: dict[Mode, Turns] = {}
        self._thinnable: dict[Mode, list[tuple[Stream, bool]]] = {mode: [] for mode in MODES}
        self._called: deque[str] = deque()
        self._open_until: dict[str, int] = {}
        self._has_ending = False
        self.told: list[Dropped | CaptureChanged | FullSteps] = []
        self._for_light: tuple[Stream, ...] = ()
        self._for_users: tuple[Stream, ...] = ()
        self._schedule([m for m in MODES if any(m in s.schedules for s in streams)])

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All active reasons to capture, due or not."""
        return self.selection.streams

    @property
    def reductions(self) -> Mapping[str, tuple[str, Reduction]]:
        """Reduction functions of the active collections: name and function, by purpose."""
        asked = [(s, name) for s in self.streams for name in s.reductions]
        own = {name: name.removeprefix(f"{s.collection}.") for s, name in asked}
        return {name: (own[name], s.reductions[name]) for s, name in asked}

    def captures_in(self, mode: Mode) -> bool:
        """Return whether anything is captured in steps of a mode, now or later."""
        return mode in self._turns and self._turns[mode].is_any

    def begin(self, step: int) -> None:
        """Determine the captures of the train step that begins."""
        self.step = self._mode_steps[Mode.TRAIN] = step
        self._admitted.clear()
        if self._has_ending:
            self._end_expired()
        while self._called:
            self._open(self._called.popleft())
        if step > self.depths.full_at:
            self._look_ahead(step)
        full_at, asks = self.depths.full_at, bool(self._for_users)
        self.is_light = step < full_at and not (asks and self._is_asked_for(step))
        if self.is_light:
            follows = step + 1 < full_at
            self.next_is_light = follows and not (asks and self._is_asked_for(step + 1))
            if self.due.active[Mode.TRAIN] is not self._for_light:
                self._thinnable[Mode.TRAIN] = []
                self.due.activate(Mode.TRAIN, self._for_light)
            return
        self.next_is_light = not self.depths.is_full(step + 1)
        for mode in self._turns:
            self._decide(mode)

    def continue_at(self, step: int, evaluations: int) -> None:
        """Continue with the first step, and evaluation forward pass, of this process."""
        self.evaluated, self._mode_steps[Mode.EVAL] = None, evaluations
        self.depths.begin(step)
        self.begin(step)

    def begin_forward(self) -> None:
        """Determine the captures of the next forward pass, after an evaluation forward pass."""
        key, self.evaluated = self.evaluated, None
        if key is not None:
            self._mode_steps[key.mode] = key.mode_step + 1
            if key.mode in self._turns:
                self._admitted.clear()
                self._decide(key.mode)

    def _look_ahead(self, step: int) -> None:
        """Find the next full step; return whether another rule determines it."""
        self.depths.go_on(step)
        every = self.depths.every(step)
        if every != self._told_every:
            self._told_every = every
            self.told.append(FullSteps(step=step, every=1 if every == ALL else every))

    def _is_asked_for(self, step: int) -> bool:
        """Return whether a user requests values of a step."""
        for stream in self._for_users:
            schedule = stream.schedules[Mode.TRAIN]
            if self._is_open(stream) and (stream.on or schedule.is_due(step)):
                return True
        return False

    def end_forward(self, key: StepKey) -> None:
        """Keep the decision for an evaluation until the next one: its loss is computed later."""
        self.evaluated = key
        self._thinning.count(self._thinnable[key.mode], key.mode, self.step)

    def call(self, code: str) -> None:
        """Activate streams that wait for a finding of a rule, from the next step on."""
        self._called.append(code)

    def change(self, request: CaptureRequest, step: int) -> list[int]:
        """Activate and deactivate collections from `step` on.

        Args:
            request: a valid request; an active collection of the same name is replaced.
            step: first step to which it applies.

        Returns:
            The known tensors that any active collection needs.
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
        wanted = self.selection.change((*kept, *added))
        self._schedule(MODES)  # also those in which nothing is due any more
        return wanted

    def next_named(self, step: int) -> int:
        """Return the first requested step from `step` on; `FAR` if no step is named.

        It is requested by a user, by a schedule that lists it, or by a finding.
        """
        called = any(until > step for until in self._open_until.values())
        if called or self._called:
            return step
        training = [stream for stream in self.streams if Mode.TRAIN in stream.schedules]
        return min((_next_named(stream, step) for stream in training), default=FAR)

    def rested(self, step: int, *, is_full: bool) -> None:
        """Continue with `step` after steps that were not observed, to stay within the budget."""
        self.budgets.rested()
        if is_full:
            self.depths.look_at(step)
        self.begin(step)

    def take_reports(
        self, *, last: bool = False
    ) -> list[Dropped | CaptureChanged | Thinned | Blind | FullSteps]:
        """Return the facts about skipped captures and ended collections when a step closes.

        Args:
            last: no further step follows, so also report captures that are still being skipped, and
                collections that never matched a tensor.
        """
        if self.is_light and not last:  # nothing that could be skipped was due
            told, self.told = self.told, []
            return list(told)
        unfound: list[Blind] = []
        if last:
            reason = "it matches no recorded tensor, or its schedule selects no step of the run"
            for name in self.selection.idle_collections():
                unfound.append(Blind(step=self.step, what=f"collection {name}", reason=reason))
        else:
            self._thinning.count(self._thinnable[Mode.TRAIN], Mode.TRAIN, self.step)
        told, self.told = self.told, []
        return [*told, *self._thinning.take(self.step, last=last), *unfound]

    def _next(self, mode: Mode) -> int:
        """Return the next step of a mode."""
        key = self.evaluated
        return key.mode_step + 1 if key and key.mode is mode else self._mode_steps[mode]

    def _end_expired(self) -> None:
        """End requested captures whose steps have passed."""
        steps = {mode: self._next(mode) for mode in MODES}
        over = {s.name for s in self.streams if s.ends and s.is_over(steps)}
        if not over:
            return
        for name in over:
            self._forget(name)
        self.selection.change(tuple(s for s in self.streams if s.name not in over))
        self._schedule(MODES)
        self._has_ending = any(stream.ends for stream in self.streams)
        left = in_force(self.streams)
        self.told.append(
            CaptureChanged(step=self.step, request="", from_step=self.step, collections=left)
        )

    def _forget(self, name: str) -> None:
        self.copy_budgets.forget(name)
        self._open_until.pop(name, None)

    def _schedule(self, modes: Iterable[Mode]) -> None:
        """Determine when the active streams are due."""
        self._turns = {mode: Turns(self.streams, mode) for mode in modes}
        training = [stream for stream in self.streams if Mode.TRAIN in stream.schedules]
        self._for_light = tuple(stream for stream in training if stream.in_light_steps)
        self._for_users = tuple(s for s in training if s.by_user and not s.in_light_steps)

    def _decide(self, mode: Mode) -> None:
        """Choose the streams that capture.

        The governor is queried once per step, and once per forward pass of an evaluation.
        """
        found, thinnable = [], []
        for stream in self._turns[mode].due(self._mode_steps[mode]):
            if (stream.on or self.copy_budgets.exhausted) and not self._is_open(stream):
                continue
            admitted = stream.essential or self._admitted.get(stream.name)
            if admitted is None:
                admitted = self.budgets.admits(stream)
                self._admitted[stream.name] = admitted
            if not stream.essential:
                thinnable.append((stream, admitted))
            if admitted:
                found.append(stream)
        self._thinnable[mode] = thinnable
        self.due.activate(mode, tuple(found))

    def _is_open(self, stream: Stream) -> bool:
        if stream.name in self.copy_budgets.exhausted:
            return False
        if not stream.on or stream.ends:
            return True
        return self.step < self._open_until.get(stream.name, 0)

    def _open(self, code: str) -> None:
        for stream in self.streams:
            if stream.is_called_by(code):
                self._open_until[stream.name] = self.step + stream.for_steps


def _next_named(stream: Stream, step: int) -> int:
    schedule = stream.schedules[Mode.TRAIN]
    due = (stream.collection or stream.own) and not stream.on
    return schedule.next_due(step).start if due else schedule.next_named(step)


def in_force(streams: Sequence[Stream]) -> tuple[str, ...]:
    """Return the names of the collections served by some streams."""
    return tuple(dict.fromkeys(stream.collection for stream in streams if stream.collection))
