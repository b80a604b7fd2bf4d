"""Ends the training of this process at a step boundary that all workers agree on.

A request reaches each worker on its own thread. The worker then publishes a step in the job's
store, which it will not pass before it has read the steps of all others. The greatest of these
steps is the common step: no worker has passed it, and finding it requires no collective.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from mothtrap.capture.recorder import Recorder
from mothtrap.capture.unheard import heard
from mothtrap.core.actions import in_job
from mothtrap.core.adapters import Environment, JobStore
from mothtrap.core.config import Config
from mothtrap.core.control_requests import CallRequest, Request, StopRequest
from mothtrap.core.errors import ConfigError
from mothtrap.core.fact import Fact
from mothtrap.core.facts.guards import TrainingStopped
from mothtrap.core.functions import function_named
from mothtrap.core.stopping import StopTraining, TrialEnded
from mothtrap.session.attached import AttachedAdapters

LEAD_STEPS = 2
"""Number of steps from the current step to the published step: time for a snapshot that was
requested just before.
"""
AGREE_S = 30.0
"""Maximum wait of a worker for the steps of the others; chosen by hand: a request reaches all
workers within a second or two.
"""
SAVED_S = 540.0
"""Time for which a worker that has saved waits for the others, because launchers end all workers
when one ends. Chosen by hand: less than the launcher's limit (`reacting.NO_END_S`).
"""
POLL_S = 0.05
OWN_LOOP_STEPS = 2
"""Number of steps in which a framework's own loop must end after a request; chosen by hand."""

_savers: list[Callable[[], object]] = []
"""Functions of the script that are called before training in this process stops."""


def on_stop(save: Callable[[], object]) -> Callable[[], object]:
    """Call a function before mothtrap stops the training of this process.

    Training stops on request (an action, `mothtrap stop`) or because of `on_nonfinite = "stop"`. In
    the latter case the bad step is not applied, so the function sees the weights before that step.

    Every worker calls the function on its training thread, between the same two steps. It may
    therefore save a checkpoint, also with collectives. Workers wait for each other until all calls
    have returned. An exception in the function is reported, and the training still stops.

    Args:
        save: function without arguments.

    Returns:
        The function, so that `on_stop` can be used as a decorator.
    """
    _savers.append(save)
    return save


class JobStop:
    """Requests to stop and to call functions, carried out at step boundaries of this process.

    Args:
        rank: rank of this worker.
        workers: number of workers.
        exit_code: exit code of the process.
        functions: names of the functions that the configuration calls in the job.
        store: returns the store of the job; None in a job of one process.
        end_loop: requests the framework to end its own loop; returns False if it has no loop.
    """

    def __init__(
        self,
        rank: int,
        workers: int,
        exit_code: int,
        functions: frozenset[str],
        store: Callable[[], JobStore | None],
        end_loop: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._rank, self._workers, self._exit_code = rank, workers, exit_code
        self._functions, self._store = functions, store
        self._report: Callable[[Fact], None] = lambda _: None
        self._say: Callable[[str], None] = lambda _: None
        self._heard: Callable[[], AbstractContextManager[Any]] = nullcontext
        self._end_loop = end_loop
        self._lock = threading.Lock()
        self._agreed = threading.Event()
        self._calls: list[CallRequest] = []
        self._others: list[str] = []
        self._step = 0
        self._request: StopRequest | None = None
        self._hold = self._at = 0
        self._stopped = 0
        self._is_over = False

    @classmethod
    def of(cls, config: Config, adapters: AttachedAdapters, environment: Environment) -> JobStop:
        """Create the instance for a job, given its position and its adapters' abilities."""

        def end_loop(reason: str) -> bool:
            return any(handle.stop(reason) for handle in adapters.handles())

        return cls(
            environment.rank or 0,
            environment.size,
            exit_code(config.stop_exit_code),
            in_job(config.actions),
            lambda: environment.store,
            end_loop,
        )

    def connect(self, recorder: Recorder[Any], say: Callable[[str], None]) -> None:
        """Connect to a recorder between steps; facts go to the recorder, messages to `say`."""
        recorder.boundary, self._report, self._say = self.boundary, recorder.notes.observe, say
        self._heard = lambda: heard(recorder.unheard)

    # On the request thread

    def ask(self, request: Request, otherwise: Callable[[Any], None]) -> None:
        """Accept a request; other requests are passed to `otherwise`."""
        if isinstance(request, CallRequest):
            with self._lock:
                self._calls.append(request)
        elif isinstance(request, StopRequest):
            with self._lock:
                if self._request is not None:
                    return
                self._hold, self._request = self._step + LEAD_STEPS, request
            self._at = self._common_step(request.id)
            self._agreed.set()
        else:
            otherwise(request)

    def _common_step(self, request: str) -> int:
        """Publish this worker's step in the store, and return the greatest step of all workers."""
        store = self._store() if self._workers > 1 else None
        if store is None:
            return self._hold
        keys = [f"stop/{request}/{rank}" for rank in range(self._workers)]
        promises: dict[str, str] = {}
        try:
            store.leave(keys[self._rank], str(self._hold))
            _find_all(store, keys, promises, AGREE_S)
        except Exception as err:  # errors of the framework's store: other workers may have ended
            self._say(f"mothtrap: cannot agree on a step to stop at ({type(err).__name__})")
        self._others = [key.replace("stop/", "saved/", 1) for key in promises]
        return max(map(int, promises.values()), default=self._hold)

    # On the training thread

    def close(self) -> None:
        """Stop accepting requests, because training has ended."""
        self._is_over = True
        if self._request is not None and not self._stopped:
            error = "training had already ended"
            self._report(TrainingStopped(step=self._step, request=self._request.id, error=error))

    def boundary(self, step: int) -> None:
        """Carry out requests between two steps.

        Args:
            step: the step that begins.

        Raises:
            StopTraining: the training ends here.
        """
        with self._lock:
            self._step, hold = step, self._hold
            calls, self._calls = self._calls, []
        for call in calls:
            self._call(call)
        if self._is_over or self._request is None or step < hold:
            return
        self._agreed.wait(AGREE_S + 5)
        if step >= self._at:
            self._stop(self._request, step)

    def _stop(self, request: StopRequest, step: int) -> None:
        self._stopped += 1
        if self._stopped == 1:
            self._report(TrainingStopped(step=step, reason=request.reason, request=request.id))
            if self._rank == 0:
                what = "the trial is pruned" if request.prunes else "training is stopped"
                self._say(f"mothtrap: {what} before step {step}: {request.reason}")
            self._save()
            self._wait_for_others(request.id)
            if self._end_loop(request.reason):
                self._at = step + OWN_LOOP_STEPS
                return
        if request.prunes:
            # training continues with the next trial
            self._request, self._hold, self._stopped = None, 0, 0
            self._agreed.clear()
            _prune(request.prunes, request.reason)
        raise StopTraining(self._exit_code, step, request.reason)

    def save(self, together: bool) -> None:
        """Call the `on_stop` functions, once, because the guard ends training here.

        Args:
            together: all workers call this at the same step, because their guards agree on it. Then
                a worker without anything to save waits, too, because often only one worker saves.
                If each guard decides alone, no worker waits for another.
        """
        if self._stopped:
            return
        self._stopped += 1
        if together:
            self._common_step("guard")
        self._save()
        if together:
            self._wait_for_others("guard")

    def _save(self) -> None:
        for save in list(_savers):
            try:
                with self._heard():
                    save()
            except Exception as err:  # a function of the script may raise anything
                name = getattr(save, "__name__", "a function")
                self._say(f"mothtrap: on_stop: {name} raised {type(err).__name__}: {err}")

    def _wait_for_others(self, request: str) -> None:
        """Wait until all stopping workers have saved, because one that ends stops the others."""
        store = self._store() if self._workers > 1 else None
        if store is None:
            return
        with suppress(Exception):  # errors of the framework's store: other workers have ended
            store.leave(f"saved/{request}/{self._rank}", "yes")
            _find_all(store, self._others, {}, SAVED_S)

    def _call(self, call: CallRequest) -> None:
        """Call a function named in the configuration of this job; no other is ever called."""
        if call.function not in self._functions:
            self._say(
                f"mothtrap: {call.function!r} was not called, because the configuration of this "
                "job does not name it"
            )
            return
        try:
            with self._heard():
                function_named(call.function)(call.event)
        except (Exception, ConfigError) as err:  # a function of the user may raise anything
            self._say(f"mothtrap: {call.function} raised {type(err).__name__}: {err}")


def _find_all(store: JobStore, keys: list[str], found: dict[str, str], wait_s: float) -> None:
    """Add the stored value of each key to `found`, until all exist or time is up."""
    until_s = time.monotonic() + wait_s
    while len(found) < len(keys) and time.monotonic() < until_s:
        for key in keys:
            text = store.find(key) if key not in found else None
            if text is not None:
                found[key] = text
        if len(found) < len(keys):
            time.sleep(POLL_S)


def _prune(library: str, reason: str) -> None:
    """End a trial of a library; return normally if the library expects the process to end.

    Raises:
        TrialEnded: with Optuna's exception for a pruned trial.
    """
    if library == "optuna":
        raise TrialEnded(importlib.import_module("optuna").TrialPruned(reason))
    importlib.import_module("ray.tune").report({"done": True, "mothtrap": reason})


def exit_code(configured: int, environ: Mapping[str, str] = os.environ) -> int:
    """Return the exit code of a stopped worker: 0 under a torchrun that would restart it."""
    restarts = environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    return 0 if restarts.isdigit() and int(restarts) > 0 else configured
