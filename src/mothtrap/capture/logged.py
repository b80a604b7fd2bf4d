"""Numbers and tensors that users hand over themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mothtrap.capture.recorder import Recorder
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.records import MEASURED, logged_name
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import numpy as arithmetic

CALLS_PER_STEP = 256
"""Values of one name in one step that are kept; chosen by hand, as for module calls."""

OWN_ARRAYS = (np.ndarray, np.generic, bool, int, float, complex, list, tuple)
"""What becomes a numpy array; everything else must be a tensor of the framework."""


def log_number(recorder: Recorder[Any], name: str, value: Any) -> None:
    """Add a number to the step in progress.

    Raises:
        Exception: whatever the value raises when it is no number, and the name when it is no text.
    """
    number = float(value)
    recorder.logs()
    recorder.scalar(logged_name(name), "", number)


class Logged:
    """Takes what users log, in the step in progress; never raises.

    What is no number, tensor or name is left out, and told once.

    Args:
        recorder: takes it.
        say: prints one line for the user.
    """

    def __init__(self, recorder: Recorder[Any], say: Callable[[str], None]) -> None:
        self._recorder, self._say = recorder, say
        self._tensors = LoggedTensors(recorder)
        self._told: set[str] = set()

    def number(self, name: str, value: float) -> None:
        """Add a number."""
        if (
            self._take(name, value, "number", functools.partial(log_number, self._recorder))
            and name in MEASURED
        ):
            self._tell_once(name, f"{name!r} is kept as 'log.{name}': mothtrap measures it, too")

    def tensor(self, name: str, value: Any) -> None:
        """Keep a tensor whole."""
        self._take(name, value, "tensor", self._tensors.add)

    def _take(self, name: Any, value: Any, wanted: str, act: Callable[[str, Any], None]) -> bool:
        if not isinstance(name, str):
            kind = type(name).__name__
            reason = f"a name must be a text, not a {kind}"
            self._tell_once(f"a {kind} as a name", reason, reason)
            return False
        try:
            act(name, value)
        except Exception as err:  # whatever an object of the user's raises
            reason = f"a value was no {wanted} ({in_one_line(err)})"
            self._tell_once(name, f"{name!r} got a {type(value).__name__}, not a {wanted}", reason)
            return False
        return True

    def _tell_once(self, name: str, line: str, reason: str = "") -> None:
        if name not in self._told:
            self._told.add(name)
            self._say(f"mothtrap: log: {line}")
            if reason:
                self._recorder.blind(self._recorder.steps, f"values of {name}", reason)


class LoggedTensors:
    """Keeps what is logged as tensors of the kind `metric`, in the step in progress.

    The second value of a name in a step is kept as `name#1`, as that of a second call of
    a module is.

    Args:
        recorder: takes the tensors.
    """

    def __init__(self, recorder: Recorder[Any]) -> None:
        self._recorder = recorder
        self._ids: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._step = -1

    def add(self, name: str, value: Any) -> None:
        """Keep a value.

        Args:
            name: of the tensor.
            value: a number, an array, nested lists of numbers, or a tensor of the framework.

        Raises:
            Exception: whatever the value raises when it is none of these.
        """
        recorder = self._recorder
        step = recorder.logs()
        if step != self._step:
            self._step = step
            self._calls.clear()
        call = self._calls[name] = self._calls.get(name, -1) + 1
        if call >= CALLS_PER_STEP:
            reason = f"more than {CALLS_PER_STEP} values of {name} in one step"
            recorder.observe(Dropped(step=self._step, what="tensors", count=1, reason=reason))
            return
        own = isinstance(value, OWN_ARRAYS)
        tensor = np.asarray(value) if own else value
        copier: Any = arithmetic if own else recorder.reducer
        dtype, shape, _ = copier.describe(tensor)
        label = f"{name}#{call}" if call else name
        if label not in self._ids:
            info = TensorInfo(kind="metric", name=label, shape=shape, dtype=dtype)
            self._ids[label] = recorder.define(info)
        recorder.reduce("metric", [self._ids[label]], [tensor], reducer=copier)
