"""Steps of `fit` in a restarted script: the first ones, and those after a checkpoint."""

from __future__ import annotations

import atexit
import functools
import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import keras
import msgspec
import numpy as np

from mothtrap.adapters.keras.checking.state import array_of
from mothtrap.checks.restarts import write_whole
from mothtrap.checks.resumed import StepState
from mothtrap.checks.starts import LoopsSeen, StartSeen
from mothtrap.core.check_plan import CheckPlan
from mothtrap.tracing.jobs.process_memory import peak_bytes

STEPS = 5
"""Number of compared steps after the checkpoint; chosen by hand."""


class StepsSeen:
    """Losses, durations, and weights of the steps of `fit` so far."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self.loops = LoopsSeen()
        self._begun_s = time.perf_counter()
        self._mean, self._in_epoch = 0.0, 0

    def begins(self, batch: int) -> None:
        """Record that a step begins; `batch` counts from 0 in each epoch."""
        if not batch:
            self._mean, self._in_epoch = 0.0, 0
        if not self.seconds:
            self._begun_s = time.perf_counter()

    def ended(self, logs: Mapping[str, Any], params: Mapping[str, Any] | None) -> None:
        """Record that a step ended; Keras reports the mean loss of the epoch so far."""
        now = time.perf_counter()
        self.seconds.append(now - self._begun_s)
        self._begun_s = now
        mean = float(np.asarray(logs.get("loss", math.nan)).mean())
        self._in_epoch += 1
        self.losses.append(mean * self._in_epoch - self._mean * (self._in_epoch - 1))
        self._mean = mean
        epochs, steps = (params or {}).get("epochs"), (params or {}).get("steps")
        if isinstance(epochs, int) and isinstance(steps, int):
            self.loops = LoopsSeen(steps=epochs * steps, epoch=steps if epochs > 1 else math.nan)

    def start(self, model: Any) -> StartSeen:
        """Return the steps so far, with the current weights of the model."""
        return StartSeen(
            losses=tuple(self.losses),
            weights=tuple(map(digest, model.weights)),
            seconds=tuple(self.seconds),
            memory_bytes=peak_bytes(),
        )


class NotedSteps:
    """Records steps in a restarted script, writes them, and ends the process.

    Args:
        plan: settings: either a second start, or a start until or from a checkpoint.
    """

    def __init__(self, plan: CheckPlan) -> None:
        self._plan, self._pid = plan, os.getpid()
        self._seen, self._checkpoint = StepsSeen(), ""
        self._model: Any = None
        self._state: StepState | None = None
        self._rates: list[tuple[float, ...]] = []

    def install(self) -> None:
        """Wrap the callbacks of `fit` and the functions that save."""
        every: Any = keras.callbacks.CallbackList
        begin, end = every.on_train_batch_begin, every.on_train_batch_end

        @functools.wraps(begin)
        def begins(callbacks: Any, batch: int, *args: Any, **kwargs: Any) -> Any:
            self._begins(callbacks.model, batch)
            return begin(callbacks, batch, *args, **kwargs)

        @functools.wraps(end)
        def ended(callbacks: Any, batch: int, logs: Any = None, **kwargs: Any) -> Any:
            result = end(callbacks, batch, logs, **kwargs)
            self._ended(logs or {}, callbacks.params)
            return result

        every.on_train_batch_begin, every.on_train_batch_end = begins, ended
        for name in ("save", "save_weights"):
            setattr(keras.Model, name, self._noticed(getattr(keras.Model, name)))
        atexit.register(self._script_ended)

    def _noticed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def save(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
            if self._rates and self._waits_for_checkpoint:
                self._end()  # the compared checkpoint must not change
            result = original(model, filepath, *args, **kwargs)
            if model is self._model:
                self._checkpoint = Path(str(filepath)).name
            return result

        return save

    @property
    def _waits_for_checkpoint(self) -> bool:
        return self._plan.resume is not None and not self._plan.resume.resumes

    def _begins(self, model: Any, batch: int) -> None:
        self._model = self._model or model
        if model is not self._model:
            return
        self._seen.begins(batch)
        if self._plan.resume is None or (self._waits_for_checkpoint and not self._checkpoint):
            return
        if self._state is None:
            self._state = _state_of(model, self._checkpoint)
            self._seen.losses.clear()
        self._rates.append((float(np.asarray(array_of(model.optimizer.learning_rate))),))

    def _ended(self, logs: Mapping[str, Any], params: Mapping[str, Any] | None) -> None:
        self._seen.ended(logs, params)
        wanted = STEPS if self._plan.resume is not None else self._plan.steps
        made = self._rates if self._plan.resume is not None else self._seen.losses
        if len(made) >= wanted:
            self._end()

    def _script_ended(self) -> None:
        if os.getpid() == self._pid and self._model is not None:
            self._end()

    def _end(self) -> NoReturn:
        plan = self._plan
        if plan.repeat is not None:
            data = msgspec.json.encode(self._seen.start(self._model))
            write_whole(Path(plan.repeat.results), data)
        elif plan.resume is not None and self._state is not None:
            state = msgspec.structs.replace(
                self._state, rates=tuple(self._rates), losses=tuple(self._seen.losses)
            )
            write_whole(Path(plan.resume.results), msgspec.json.encode(state))
        os._exit(0)


def _state_of(model: Any, checkpoint: str) -> StepState:
    """Return the digests of weights, and of the optimizer's tensors by kind."""
    moments: dict[str, list[str]] = {}
    for variable in model.optimizer.variables:
        if variable.name != "learning_rate":
            moments.setdefault(variable.name.rpartition("_")[2], []).append(digest(variable))
    return StepState(
        weights=tuple(map(digest, model.weights)),
        moments={name: tuple(digests) for name, digests in moments.items()},
        checkpoint=checkpoint,
    )


def digest(variable: Any) -> str:
    """Return a digest of the values of a variable."""
    return hashlib.blake2b(array_of(variable).tobytes(), digest_size=8).hexdigest()
