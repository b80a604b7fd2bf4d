"""Start the check of a script in a process that has just imported Keras."""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from mothtrap.adapters.keras import internals
from mothtrap.adapters.keras.checking.given_data import GivenData
from mothtrap.adapters.keras.checking.noted_steps import StepsSeen
from mothtrap.adapters.keras.checking.part_alone import CallbacksAlone, data_alone
from mothtrap.adapters.keras.checking.shortened import Shortened
from mothtrap.adapters.keras.checking.state import ModelState
from mothtrap.adapters.keras.checking.trained_step import MAX_BATCHES, KerasStep
from mothtrap.checks.check import Check, result_of
from mothtrap.checks.part_seen import PartSeen
from mothtrap.checks.restarts import Command, Restarts
from mothtrap.checks.starts import LoopsSeen, Starts, StartSeen
from mothtrap.checks.subject import DataSet, Source, Subject
from mothtrap.core.check_plan import CheckPlan, Files
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.facts.checks import CheckResult
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.loops import turns_around

WATCHED_SHARE, LAST_SHARE = 0.6, 0.8
"""Limits on the observation, from the import of Keras on. After the first share of the time, no
further step begins. After the second share, the script is interrupted wherever it is. Chosen by
hand.
"""
CLOSING_SHARE = 0.05
"""Share of the budget for storing and printing the results; chosen by hand."""
CHECK_SHARE = 0.5
"""Share of the remaining time that a check may use if others follow; chosen by hand."""
SPARE_S = 0.5
"""Minimum time for a check; chosen by hand."""

Finish = Callable[[Sequence[CheckResult], str], object]


class KerasChecking:
    """Observes the first steps of the first `fit`, runs the checks, and ends the process.

    Args:
        plan: settings of the check.
        checks: checks to run, in this order.
        finish: receives the results, and ends the process.
        pause: stops recording, because the steps of trials do not belong to the script.
    """

    def __init__(
        self,
        plan: CheckPlan,
        checks: Sequence[Check],
        finish: Finish,
        pause: Callable[[], object],
    ) -> None:
        self._plan, self._checks, self._finish, self._pause = plan, checks, finish, pause
        self._began = time.monotonic()
        used = time.time() - plan.began_s
        self._deadline = self._began + plan.budget_s * (1 - CLOSING_SHARE) - used
        self._pid = os.getpid()
        self._model: Any = None
        self._data: GivenData | None = None
        self._initial: ModelState | None = None
        self._location: str | None = None
        self._steps = 0
        self._loaded = self._over = self._ends_soon = False
        self._shortened = Shortened(plan)
        self._callbacks: CallbacksAlone | None = None
        self._part: PartSeen | None = None
        self._command, self._seen, self._seeded = Command(), StepsSeen(), False
        self._first, self._loops = StartSeen(losses=()), LoopsSeen()

    def install(self) -> None:
        """Wrap `fit` and its callbacks until the process ends."""
        self._shortened.install()
        kind: Any = internals.trainer_type()
        setattr(kind, "fit", self._around_fit(kind.fit))  # noqa: B010  # for the type checker
        every: Any = keras.callbacks.CallbackList
        begin, end = every.on_train_batch_begin, every.on_train_batch_end

        @functools.wraps(begin)
        def batch_begins(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            self._batch_begins(callbacks.model, args[0] if args else kwargs.get("batch", 0))
            return begin(callbacks, *args, **kwargs)

        @functools.wraps(end)
        def batch_ended(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            result = end(callbacks, *args, **kwargs)
            self._batch_ended(callbacks.model, logs_of(args, kwargs), callbacks.params)
            return result

        every.on_train_batch_begin, every.on_train_batch_end = batch_begins, batch_ended
        load = keras.Model.load_weights

        @functools.wraps(load)
        def loaded(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._loaded = True
            return load(model, *args, **kwargs)

        setattr(keras.Model, "load_weights", loaded)  # noqa: B010
        seed = keras.utils.set_random_seed

        @functools.wraps(seed)
        def seeded(*args: Any, **kwargs: Any) -> Any:
            self._seeded = self._seeded or not self._over  # checks set seeds, too
            return seed(*args, **kwargs)

        keras.utils.set_random_seed = seeded
        atexit.register(self._script_ended)
        signal.signal(signal.SIGALRM, lambda *_: self._clock_rings())
        signal.setitimer(signal.ITIMER_REAL, self._seconds(WATCHED_SHARE))

    def _seconds(self, share: float) -> float:
        return max(SPARE_S, share * (self._deadline - self._began))

    def _around_fit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self._model is None:
                try:
                    given = signature.bind(model, *args, **kwargs).arguments
                except TypeError:  # Keras itself reports it
                    given = {}
                self._location = frames.user_location()
                self._model, self._data = model, GivenData(given, self._location)
                self._shortened.shorten(model)
            return original(model, *args, **kwargs)

        return fit

    def _batch_begins(self, model: Any, batch: int) -> None:
        if model is self._model and not self._over:
            self._seen.begins(batch)
        if model is self._model and self._initial is None and model.built:
            self._initial = ModelState(model)

    def _batch_ended(
        self, model: Any, logs: Mapping[str, Any], params: Mapping[str, Any] | None
    ) -> None:
        if model is not self._model or self._over or self._callbacks is not None:
            return
        self._steps += 1
        self._seen.ended(logs, params)
        if self._steps < self._plan.steps and not self._ends_soon:
            return
        if self._plan.part == "callbacks" and keras.backend.backend() == "tensorflow":
            self._begin_callbacks(logs)
        else:
            self._hold()

    def _begin_callbacks(self, logs: Mapping[str, Any]) -> None:
        """Continue `fit` with steps without computation."""
        self._pause()
        files = Path(self._plan.scratch) / "files"
        self._callbacks = CallbacksAlone(
            self._model,
            self._plan.steps,
            logs,
            lambda: [one.name for one in sorted(files.rglob("*")) if one.is_file()],
        )
        self._callbacks.begin()
        left = self._deadline - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(SPARE_S, CHECK_SHARE * left))

    def _clock_rings(self) -> None:
        """Make the step in progress the last one; interrupt it if it takes too long."""
        if self._callbacks is not None:
            self._hold("it did not end in its share of the time")
            return
        left = self._seconds(LAST_SHARE) - (time.monotonic() - self._began)
        if left > 0 and not self._ends_soon:
            self._ends_soon = True
            signal.setitimer(signal.ITIMER_REAL, left)
        elif self._steps:
            self._hold()
        else:
            used = time.time() - self._plan.began_s
            why = f"the script completed 0 steps in {used:.0f} of {self._plan.budget_s:.0f} s"
            self._unmade(f"{why}; use a larger --budget", in_time=False)

    def _script_ended(self) -> None:
        if os.getpid() != self._pid or self._over:
            return
        if self._steps:
            self._hold()
        elif self._model is None:
            self._unmade("no call to `fit` of a Keras model was observed")
        else:
            self._unmade("the script ended within the first step of `fit`")

    def _unmade(self, why: str, *, in_time: bool = True) -> None:
        self._over = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        self._finish([self._result(check, why) for check in self._checks], "" if in_time else why)

    def _result(self, check: Check, why: str) -> CheckResult:
        return CheckResult(step=self._steps, code=check.code, state="not_enough_data", reason=why)

    def _hold(self, ended: str = "") -> None:
        """Run the checks in this process, and end it.

        Args:
            ended: reason why a part that ran alone ended before the script did.
        """
        self._over = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        self._loops = self._seen.loops.within(turns_around(sys._getframe()))
        self._pause()
        if self._shortened.why_not:
            self._unmade(self._shortened.why_not)
            return
        self._first = self._seen.start(self._model)
        if self._callbacks is not None:
            self._part = self._callbacks.seen(ended)
        elif self._plan.part == "data" and self._data is not None:
            self._part = data_alone(self._data, self._plan.steps)
        step, sets = None, tuple[DataSet, ...]()
        why = ""
        try:
            step, sets = self._taken()
        except Exception as err:
            why = f"the step could not be repeated: {in_one_line(err)}"
            if self._part is None:
                self._unmade(why)
                return
        waiting = len(self._checks)
        results = [
            self._made(check, step, sets, waiting - n, why) for n, check in enumerate(self._checks)
        ]
        self._finish(results, "")

    def _taken(self) -> tuple[KerasStep, tuple[DataSet, ...]]:
        """Return the step, and the datasets."""
        assert self._data is not None  # a step was recorded
        self._model.train_function = None  # made while it was watched
        batches = self._data.batches(MAX_BATCHES)
        step = KerasStep(
            self._model,
            batches,
            location=self._location,
            initial=self._initial,
            loaded=self._loaded,
            dummy=self._plan.dummy_loss,
            free=self._plan.part == "loss",
            losses=tuple(self._seen.losses),
        )
        step.number = self._steps
        return step, self._data.sets()

    def _made(
        self,
        check: Check,
        step: KerasStep | None,
        sets: tuple[DataSet, ...],
        waiting: int,
        why: str,
    ) -> CheckResult:
        """Run a check.

        Args:
            check: the check.
            step: the recorded step; None if it could not be repeated.
            sets: datasets.
            waiting: number of checks to run, including this one.
            why: reason why the step could not be repeated; empty if it could.
        """
        left = self._deadline - time.monotonic()
        left *= CHECK_SHARE if waiting > 1 else 1.0
        if left < SPARE_S:
            return self._result(
                check,
                f"the budget of {self._plan.budget_s:.0f} s was used up: raise it with --budget",
            )
        task = "" if step is None or step.loss is None else step.loss.task
        sources: tuple[Source, ...] = ("step", "trials", "datasets")
        restarts = Restarts(self._plan, self._command, time.monotonic() + left - SPARE_S)
        command = self._plan.resume_command
        subject = Subject(
            starts=lambda: Starts(
                first=self._first, second=restarts.seen(self._steps), seeded=self._seeded
            ),
            resume=(lambda: restarts.resumed(command)) if command else None,
            loops=self._loops,
            asks=self._plan.asks,
            missing=dict.fromkeys(sources, why) if why else {},
            recorded=step,
            datasets=sets,
            task=task,
            deadline=time.monotonic() + left,
            part=self._part,
        )
        return result_of(check, subject, self._steps)


def logs_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the logs passed to `on_train_batch_end(batch, logs)`."""
    given = args[1] if len(args) > 1 else kwargs.get("logs")
    return given if isinstance(given, Mapping) else {}


def begin(
    plan: CheckPlan,
    checks: Sequence[Check],
    finish: Finish,
    pause: Callable[[], object],
    files: Files | None,
) -> None:
    """Check the script that is about to run in this process."""
    if files is not None:
        lead_writes(files)
    KerasChecking(plan, checks, finish, pause).install()


def lead_writes(files: Files) -> None:
    """Redirect files that Keras writes from compiled code to the scratch folder."""
    import h5py

    make = h5py.File.__init__

    @functools.wraps(make)
    def made(file: Any, name: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
        if isinstance(name, str | os.PathLike):
            reads = mode == "r"
            name = files.for_reading(name) if reads else files.for_writing(name, keeps=mode != "w")
        make(file, name, mode, *args, **kwargs)

    setattr(h5py.File, "__init__", made)  # noqa: B010  # for the type checker
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        write = tf.summary.create_file_writer

        @functools.wraps(write)
        def written(logdir: Any, *args: Any, **kwargs: Any) -> Any:
            return write(files.for_writing(logdir, keeps=False), *args, **kwargs)

        tf.summary.create_file_writer = written
