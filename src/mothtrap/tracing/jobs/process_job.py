"""The one job of a process, shared by the adapters of all its frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mothtrap.capture.grouper import (
    ClosedStep,
    Ended,
    Event,
    Grouper,
    StepBegan,
    StepEnded,
    StepSkipped,
)
from mothtrap.capture.recorder import Recorder
from mothtrap.core.adapters import Resumption
from mothtrap.core.config import Config
from mothtrap.core.facts.workers import Resumed
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.jobs.logged_numbers import LoggedNumbers


class StepObserver(Protocol):
    """Adds data to a step when it closes."""

    def closing(self, closed: ClosedStep) -> None:
        """Add data to a step that is finished but not emitted yet."""

    def closed(self, closed: ClosedStep) -> None:
        """Begin the next step, after the previous one was emitted."""

    def interrupted(self) -> None:
        """Close a finished step because another framework continues."""


class Member(Protocol):
    """A framework's part in the job of a process.

    Attributes:
        live: whether its steps are still observed.
        reports: everything that it can ever report; None = unknown.
        refines: the framework on which it trains.
        observer: observer of the steps of its family; None if it adds nothing.
    """

    live: bool
    reports: Reports | None
    refines: str | None
    observer: StepObserver | None

    def stepped(self, step: int) -> None:
        """Handle a step of the framework, after a step of another framework or its own."""


class ProcessJob:
    """One sequence of steps, from any of the frameworks of a process.

    If one framework refines another, they form a family: a step of one is a step of all. Otherwise,
    frameworks take turns.

    Args:
        recorder: receives the observations.
        config: what the user has set.

    Attributes:
        grouper: turns events of all frameworks into steps, and counts them.
        members: participating frameworks, by name, in the order in which they joined.
        stepping: the framework that made the latest step; '' before the first.
        asked_mode: mode of forward passes set by the user or a trainer; None = detected.
        loss_place: the user's line that computes a loss on which a trainer calls backward; None if
            the user's code calls backward.
        numbers: receives numbers that scripts pass to their own loggers.
        resumption: queried once, before the first step; None in a job that was not restarted.
    """

    def __init__(self, recorder: Recorder[Any], config: Config | None = None) -> None:
        self.recorder, self.config = recorder, config or Config()
        self.grouper = Grouper()
        self.members: dict[str, Member] = {}
        self.stepping = ""
        self.asked_mode: Mode | None = None
        self.loss_place: str | None = None
        self.numbers = LoggedNumbers(recorder)
        self._stepped: set[str] = set()
        self.resumption: Resumption | None = None

    def resume(self, digests: Mapping[str, str], own_steps: int | None) -> Resumed | None:
        """Resume, before the first step, where the job saved the state that was loaded."""
        if self.resumption is None or self.grouper.step:
            return None
        resumption, self.resumption = self.resumption, None
        resumed = resumption(digests, own_steps)
        if resumed is not None:
            self.grouper.step = resumed.step
            self.recorder.continue_at(resumed.step, resumed.evaluations)
            self.recorder.notes.observe(resumed)
        return resumed

    def event(self, event: Event, framework: str) -> None:
        """Process an event of a framework; close the step that it ends."""
        closed = self.grouper.feed(event)
        if closed is not None:
            self.close(closed, framework)

    def make_step(self, framework: str, optimizer: str, *, skipped: bool) -> None:
        """Record a complete step of a framework.

        Backward passes observed by the underlying framework belong to the step. A step nested in a
        step of that framework is part of it, and does not count separately.
        """
        if len(self.family(framework)) == 1:
            self.close(self.grouper.step_alone(optimizer, skipped=skipped), framework)
        elif skipped:
            self.event(StepSkipped(optimizer), framework)
            self.finish_step(framework)
        else:
            self.event(StepBegan(optimizer), framework)
            self.event(StepEnded(optimizer), framework)
            self.finish_step(framework)

    def finish_step(self, framework: str) -> None:
        """Close the step in progress if it is finished."""
        if self.grouper.between_steps:
            self.event(Ended(), framework)

    def take_turn(self, framework: str) -> None:
        """Begin a step of a framework, and close the finished steps of others."""
        family = self.family(framework)
        for name, member in list(self.members.items()):
            if name not in family and member.live and member.observer is not None:
                member.observer.interrupted()

    def close(self, closed: ClosedStep, framework: str) -> None:
        """Emit a step of a framework, with data from related frameworks."""
        before, self.stepping = self.stepping, framework
        family = self.family(framework) if len(self.members) > 1 else frozenset((framework,))
        if not self._stepped & family:
            if self._stepped:  # late frameworks are observed in full at first, too
                self.recorder.depths.begin(closed.step + 1)
            self._stepped.add(framework)
        observers = []
        for name, member in self.members.items():
            if name in family and member.live and member.observer is not None:
                observers.append(member.observer)
        if before != framework and framework in self.members:
            self.members[framework].stepped(closed.step)
        for observer in observers:
            observer.closing(closed)
        self.recorder.close_step(closed)
        for observer in observers:
            observer.closed(closed)
        self.recorder.boundary(closed.step + 1)

    def family(self, framework: str) -> frozenset[str]:
        """Return a framework, the frameworks that it refines, and all that refine any of these."""
        found, before = {framework}, 0
        while len(found) > before:
            before = len(found)
            for name, member in self.members.items():
                if name in found and member.refines is not None:
                    found.add(member.refines)
                elif member.refines in found:
                    found.add(name)
        return frozenset(found)
