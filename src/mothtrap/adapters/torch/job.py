"""What all witnesses of a PyTorch job share."""

from __future__ import annotations

import abc
import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.naming import NameBook
from mothtrap.adapters.torch.readable import outside_transforms
from mothtrap.adapters.torch.reproduce.recording.randomness import RandomStates
from mothtrap.adapters.torch.resting import Resting
from mothtrap.adapters.torch.uncompiled import uncompiled
from mothtrap.capture.grouper import (
    BackwardBegan,
    ClosedStep,
    Event,
    Grouper,
    RootCalled,
    StepEnded,
)
from mothtrap.capture.recorder import Recorder
from mothtrap.core.config import Config

if TYPE_CHECKING:
    from mothtrap.adapters.torch.optimization.hand_steps import HandSteps

T = TypeVar("T")


@uncompiled
class Job(abc.ABC):
    """Names, steps and the record of one job, and the wall around what watches it.

    Attributes:
        light: the step in progress is a light one (`capture.depths`).
        live: False once the process forked, ended, or observation failed as a whole.
        config: what the user has set.
        recorder: takes what is seen.
        book: names of modules and parameters.
        grouper: turns events into steps.
        random_states: reads those of all generators.
        resting: knows when nobody watches.
        hand_steps: recognizes updates that no optimizer makes.
    """

    hand_steps: HandSteps

    def __init__(
        self,
        recorder: Recorder[torch.Tensor],
        book: NameBook | None = None,
        first_step: int = 0,
        config: Config | None = None,
    ) -> None:
        self.live, self.light = True, False
        self.config = config or Config()
        self.recorder = recorder
        self.book = book or NameBook()
        self.grouper = Grouper(first_step)
        self.random_states = RandomStates()
        self.resting = Resting(self)
        recorder.logs = self.resting.logged
        self._step_code: CodeType | None = None
        self._depth = 0
        self._failed = recorder.containment.failed

    def __init_subclass__(cls) -> None:
        uncompiled(cls)

    @abc.abstractmethod
    def close(self, closed: ClosedStep) -> None:
        """A step is over: hand it to the recorder."""

    @abc.abstractmethod
    def may_rest(self) -> bool:
        """Whether nothing was asked for that needs each step."""

    @abc.abstractmethod
    def woke(self, optimizer: Optimizer, steps: int, whole: bool) -> None:
        """So many steps of an optimizer were not watched; `whole`: the next one is from now on."""

    @property
    def is_light_next(self) -> bool:
        """Whether what happens now belongs to a light step: once one is applied, to the next."""
        return self.recorder.next_is_light if self.grouper.between_steps else self.light

    def contain(self, act: Callable[..., T], *args: Any) -> T | None:
        """Run a witness: timed, and switched off as a whole when it fails."""
        if not self.live:
            return None
        began = time.perf_counter()
        self._depth += 1
        try:
            return act(*args)
        except Exception as err:
            self.live = False
            self._report("observation of the training", err)
            return None
        finally:
            self._depth -= 1
            if self._depth == 0:  # an outer witness counts the time of an inner one
                self.recorder.own_s += time.perf_counter() - began

    def contain_part(self, part: str, act: Callable[..., None], *args: Any) -> None:
        """Run something that can fail alone without taking the rest with it."""
        if part in self._failed:
            return
        try:
            act(*args)
        except Exception as err:
            self._report(part, err)

    def _report(self, part: str, err: Exception) -> None:
        failure = self.recorder.containment.report(part, err, step=self.grouper.step)
        if failure is not None:
            self.recorder.observe(failure)
            self.recorder.blind(self.grouper.step, part, f"failed: {failure.error}")

    def feed(self, event: Event) -> None:
        """Give the grouper an event; close the step that it ends."""
        if isinstance(event, (BackwardBegan, RootCalled)):
            self._forget_failed_step()
        closed = self.grouper.feed(event)
        if closed is not None:
            with outside_transforms():  # the forward that ends a step may be inside of one
                self.close(closed)

    def _forget_failed_step(self) -> None:
        """End a step that raised: no hook tells of it, but it has left the stack."""
        optimizer = self.grouper.stepping
        if optimizer is not None and not _is_on_stack(self._step_code):
            self.feed(StepEnded(optimizer))


def _is_on_stack(code: CodeType | None) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
