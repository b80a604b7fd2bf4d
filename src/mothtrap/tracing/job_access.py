"""The parts of a job that adapters of larger frameworks need; see `core.adapters.Job`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from mothtrap.capture.grouper import Grouper
from mothtrap.capture.recorder import Recorder
from mothtrap.core.adapters import Deferral
from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode, StepKey
from mothtrap.tracing.evaluations import Evaluations
from mothtrap.tracing.job import ProcessJob, StepObserver


class RecorderAccess:
    """Methods of a job that reach its recorder."""

    recorder: Recorder[Any]
    grouper: Grouper
    evaluations: Evaluations

    def is_full(self, step: int | None = None) -> bool:
        """Return whether a step is observed in full; default: the step in progress."""
        if step is None:
            return not self.recorder.plan.is_light
        return self.recorder.depths.is_full(step)

    def begins_evaluation(self, mode: Mode = Mode.EVAL) -> bool:
        """Return whether forwards of a mode are captured, and find out what is due in the next."""
        if not self.recorder.plan.captures_in(mode):
            return False
        self.recorder.captures.begin_forward()
        return True

    @contextmanager
    def forward(self, mode: Mode = Mode.TRAIN) -> Iterator[None]:
        """Hold together the tensors of one forward, which are taken inside."""
        captures, step = self.recorder.captures, self.grouper.step
        captures.begin_forward()
        yield
        number = step if mode is Mode.TRAIN else self.evaluations.next_forward(mode)
        captures.commit_forward(StepKey(step=step, mode=mode, mode_step=number))

    def add_row(self, tensor_id: int, fields: dict[str, float]) -> None:
        """Add statistics of a tensor, by name, that the adapter has computed itself."""
        self.recorder.captures.add_row(tensor_id, fields)

    def defer(self, take: Deferral) -> Callable[[], None]:
        """Ask `take` about each value that the user logs; return what ends that."""
        deferring = self.recorder.deferring
        if take not in deferring:
            deferring.append(take)

        def end() -> None:
            with suppress(ValueError):
                deferring.remove(take)

        return end

    def waiting(self) -> AbstractContextManager[None]:
        """Wait inside a hook for the training; that time does not count as overhead."""
        return self.recorder.times.waiting()

    def say(self, line: str) -> None:
        """Print one line for the user."""
        self.recorder.containment.say(line)

    def ends_here(self) -> None:
        """Say that the adapter is about to end the training with an exception."""
        self.recorder.before_guard_stops(True)

    @property
    def ended_by(self) -> BaseException | None:
        """Return the exception that ended the script."""
        return self.recorder.containment.ended_by

    def never_stepped(self, why: str) -> None:
        """Say why no step was made, in case that none will be."""
        self.recorder.notes.never_stepped(why)

    def after_end(self, fact: Fact) -> None:
        """Add a fact once the training is over, also where no step was made."""
        key = StepKey(step=self.grouper.step, mode=Mode.PREDICT)
        self.recorder.evaluation(key, (), (fact,))
        self.recorder.notes.unstepped.append(fact)


class ProcessAccess:
    """Methods of a job that reach the job of the whole process."""

    process: ProcessJob
    observer: StepObserver | None
    _asked_mode: Mode | None = None

    def observe(self, observer: StepObserver) -> None:
        """Let an observer add to the steps of this framework and of those it trains with."""
        self.observer = observer

    @property
    def steps_applied(self) -> int:
        """Return how many steps the weights have taken, with one that is not closed yet."""
        return self.process.grouper.steps_applied

    def asks(self, kind: str, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether a collection holds tensors of a kind, be they due now or not."""
        streams = self.process.recorder.plan.streams
        return any(kind in one.kinds and mode in one.schedules for one in streams if one.by_user)

    def log(self, values: Mapping[str, Any]) -> None:
        """Take the numbers among the values that the script gives to a logger, by name."""
        self.process.numbers.add(values)

    def ask_mode(self, mode: Mode | None) -> None:
        """Set the mode of the next forwards; None ends that. A mode set by the user stays."""
        if self.process.asked_mode is self._asked_mode:  # else the user has set another one
            self.process.asked_mode = self._asked_mode = mode

    def loss_computed_at(self, location: str | None) -> None:
        """Set the user's line that computes the loss, where a trainer calls the backward."""
        self.process.loss_place = location
