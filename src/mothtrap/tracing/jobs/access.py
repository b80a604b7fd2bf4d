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
from mothtrap.tracing.jobs.evaluations import Evaluations
from mothtrap.tracing.jobs.process_job import ProcessJob, StepObserver


class RecorderAccess:
    """Methods of a job that access its recorder."""

    recorder: Recorder[Any]
    grouper: Grouper
    evaluations: Evaluations

    def is_full(self, step: int | None = None) -> bool:
        """Return whether a step is observed in full; default: the step in progress."""
        if step is None:
            return not self.recorder.plan.is_light
        return self.recorder.depths.is_full(step)

    def begins_evaluation(self, mode: Mode = Mode.EVAL) -> bool:
        """Begin an evaluation forward, and return whether it is captured."""
        if not self.recorder.plan.captures_in(mode):
            return False
        self.recorder.captures.begin_forward()
        return True

    @contextmanager
    def forward(self, mode: Mode = Mode.TRAIN) -> Iterator[None]:
        """Group the tensors of one forward pass that are captured inside the block."""
        captures, step = self.recorder.captures, self.grouper.step
        captures.begin_forward()
        yield
        number = step if mode is Mode.TRAIN else self.evaluations.next_forward(mode)
        captures.commit_forward(StepKey(step=step, mode=mode, mode_step=number))

    def add_row(self, tensor_id: int, fields: dict[str, float]) -> None:
        """Add statistics that the adapter computed itself for a tensor, by name."""
        self.recorder.captures.add_row(tensor_id, fields)

    def defer(self, take: Deferral) -> Callable[[], None]:
        """Pass each value that the user logs to `take`; return a function that stops this."""
        deferring = self.recorder.deferring
        if take not in deferring:
            deferring.append(take)

        def end() -> None:
            with suppress(ValueError):
                deferring.remove(take)

        return end

    def waiting(self) -> AbstractContextManager[None]:
        """Exclude time that a hook waits for the training from the overhead."""
        return self.recorder.times.waiting()

    def say(self, line: str) -> None:
        """Print one line for the user."""
        self.recorder.containment.say(line)

    def ends_here(self) -> None:
        """Report that the adapter is about to end training with an exception."""
        self.recorder.before_guard_stops(True)

    @property
    def ended_by(self) -> BaseException | None:
        """Return the exception that ended the script."""
        return self.recorder.containment.ended_by

    def never_stepped(self, why: str, fact: Fact | None = None) -> None:
        """Record why no step was taken, and a fact about it, in case no step follows."""
        self.recorder.notes.never_stepped(why)
        if fact is not None:
            self.recorder.notes.unstepped.append(fact)

    def after_end(self, fact: Fact) -> None:
        """Add a fact after training has ended, even if no step was taken."""
        key = StepKey(step=self.grouper.step, mode=Mode.PREDICT)
        self.recorder.evaluation(key, (), (fact,))
        self.recorder.notes.unstepped.append(fact)


class ProcessAccess:
    """Methods of a job that access the job of the whole process."""

    process: ProcessJob
    observer: StepObserver | None
    _asked_mode: Mode | None = None

    def observe(self, observer: StepObserver) -> None:
        """Register an observer for the steps of this framework and of frameworks it trains with."""
        self.observer = observer

    @property
    def steps_applied(self) -> int:
        """Return the number of steps applied to the weights, including a step not closed yet."""
        return self.process.grouper.steps_applied

    def asks(self, kind: str, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether any collection contains tensors of a kind, even if none are due now."""
        streams = self.process.recorder.plan.streams
        return any(kind in one.kinds and mode in one.schedules for one in streams if one.by_user)

    def log(self, values: Mapping[str, Any]) -> None:
        """Record the numbers among the values that the script passes to a logger, by name."""
        self.process.numbers.add(values)

    def ask_mode(self, mode: Mode | None) -> None:
        """Set the mode of the next forward passes unless the user has set it; None resets it."""
        if self.process.asked_mode is self._asked_mode:  # otherwise the user has set another mode
            self.process.asked_mode = self._asked_mode = mode

    def loss_computed_at(self, location: str | None) -> None:
        """Set the user's line that computes the loss, when a trainer calls backward."""
        self.process.loss_place = location
