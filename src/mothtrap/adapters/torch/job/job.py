"""State that all observers of a PyTorch job share."""

from __future__ import annotations

import abc
import sys
import threading
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Protocol

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.naming import NameBook, Root
from mothtrap.adapters.torch.job.randomness import RandomStates
from mothtrap.adapters.torch.job.readable import outside_transforms
from mothtrap.adapters.torch.job.step_sampling import StepSampling
from mothtrap.adapters.torch.job.training_thread import TrainingThread
from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.adapters.torch.job.unheard import UNHEARD
from mothtrap.capture.grouper import (
    BackwardBegan,
    ClosedStep,
    Ended,
    Event,
    RootCalled,
    StepEnded,
)
from mothtrap.capture.recorder import Moment
from mothtrap.core.steps import Mode
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.jobs.process_job import ProcessJob
from mothtrap.tracing.replacements import drop_own_frame

for _neutral in (ProcessJob, AdapterJob, drop_own_frame):
    uncompiled(_neutral)  # framework-independent code cannot mark itself for a compiler


class RootObserver(Protocol):
    """Receives the forward passes of models that user code calls."""

    @property
    def glimpses(self) -> Sequence[object]:
        """Return the data for which it waits until the next forward pass."""

    def root_called(self, root: Root, trains: bool) -> None:
        """Handle a model call; `trains`: with a graph."""


@uncompiled
class Job(abc.ABC):
    """Names, steps and the record of the job, shared by its observers.

    Attributes:
        light: the step in progress is a light one (`capture.depths`).
        job: PyTorch's view of the process's job.
        config: what the user has set.
        recorder: receives the observations.
        book: names of modules and parameters.
        grouper: turns events into steps.
        random_states: reads the states of all generators.
        sampling: decides which steps are not watched.
        training_thread: decides which thread is observed.
        hand_steps: recognizes updates without an optimizer.
        contain: runs a hook; see `core.adapters.Job`.
        contain_part: runs code that may fail without affecting other code.
        contain_parts: runs several such functions.
        contained: wraps a hook so that its errors are contained.
    """

    hand_steps: RootObserver

    def __init__(self, job: AdapterJob, book: NameBook | None = None) -> None:
        self.light = False
        self.job, self.config, self.recorder = job, job.config, job.recorder
        self.contain, self.contain_part = job.contain, job.contain_part
        self.contain_parts, self.contained = job.contain_parts, job.contained
        self.book = book or NameBook()
        self.grouper = job.grouper
        self.random_states = RandomStates()
        self.sampling = StepSampling(self)
        self.training_thread = TrainingThread(job)
        self.recorder.left_out = self.training_thread.is_left_out
        self.recorder.logs, self.recorder.moment = self._logged, self._moment
        self.recorder.unheard = UNHEARD
        job.observer = self
        self._step_code: CodeType | None = None

    def __init_subclass__(cls) -> None:
        uncompiled(cls)

    @abc.abstractmethod
    def closing(self, closed: ClosedStep) -> None:
        """Add data to a step that is finished but not emitted yet."""

    @abc.abstractmethod
    def closed(self, closed: ClosedStep) -> None:
        """Begin the next step, after the previous one was emitted."""

    @abc.abstractmethod
    def may_sample(self) -> bool:
        """Return whether no request needs each step."""

    @abc.abstractmethod
    def passed_unobserved(self, optimizer: Optimizer, steps: int, whole: bool) -> None:
        """Handle unobserved steps of an optimizer; `whole`: the next step is observed."""

    @property
    def asked_mode(self) -> Mode | None:
        """Return the mode set by the user, if any."""
        return self.job.process.asked_mode

    @property
    def is_light_next(self) -> bool:
        """Return whether current events belong to a light step.

        This is true from the time when one is applied until the next one.
        """
        return self.recorder.plan.next_is_light if self.grouper.between_steps else self.light

    def _moment(self) -> Moment:
        if self.grouper.between_steps or self.sampling.is_between:
            return "between"
        return "begins" if self.grouper.knows_no_loss and not self.sampling.on else "within"

    def _logged(self, begins: bool) -> int:
        """Return the step of a logged value; close the previous step if a new one begins."""
        if begins and self.grouper.between_steps:
            self.contain(self.feed, Ended())
        return self.sampling.logged(begins)

    def interrupted(self) -> None:
        """Close the finished step and resume observation, because another framework steps.

        The other framework may train in another thread. The observed thread stays the same.
        """
        if not self.job.thread or threading.get_ident() == self.job.thread:
            self.contain(self._give_way)
        elif self.training_thread.is_idle():
            self.contain_part("steps", self._give_way)  # `contain` runs in the observed thread only

    def _give_way(self) -> None:
        self.sampling.resume()
        if self.grouper.between_steps:
            self.feed(Ended())

    def feed(self, event: Event) -> None:
        """Pass an event to the grouper; close the step that it ends."""
        if self.grouper.running and isinstance(event, (BackwardBegan, RootCalled)):
            self._forget_failed_step()
        closed = self.grouper.feed(event)
        if closed is None:
            return
        process, framework = self.job.process, self.job.framework
        if torch._C._functorch.peek_interpreter_stack() is None:  # private API, covered by a test
            process.close(closed, framework)
        else:
            with outside_transforms():  # the forward that ends a step may be inside another forward
                process.close(closed, framework)

    def _forget_failed_step(self) -> None:
        """End a step that raised an exception: no hook runs, but its frame no longer exists."""
        optimizer = self.grouper.stepping
        if optimizer is not None and not _is_on_stack(self._step_code):
            self.feed(StepEnded(optimizer))


def _is_on_stack(code: CodeType | None) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
