"""Numbers and tensors that users log."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from mothtrap.capture.recorder import Recorder
from mothtrap.capture.unheard import aside
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.facts.captures import Dropped, NumberLogged
from mothtrap.core.measured import MEASURED, logged_name
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import numpy as arithmetic

CALLS_PER_STEP = 256
"""Maximum number of values of one name per step; chosen by hand, as for module calls."""

OWN_ARRAYS = (np.ndarray, np.generic, bool, int, float, complex, list, tuple)
"""Types that become NumPy arrays; everything else must be a tensor of the framework."""


def log_number(recorder: Recorder[Any], name: str, value: Any) -> None:
    """Add a number to the step in progress.

    Raises:
        Exception: any exception that the value raises if it is not a number, or the name if it is
            not a string.
    """
    number = float(value)
    recorder.logs(False)
    recorder.notes.scalar(logged_name(name), "", number)


class LoggedSteps:
    """The step to which a value logged by the script belongs.

    This is the step in progress. Between `optimizer.step()` and the next forward pass, it is the
    step that was just applied. Exceptions are names that a script logs where a step begins, and
    values logged after the last step: they belong to the next step. A name that was first logged in
    such a gap is held until it is known whether another step follows.

    Args:
        recorder: receives the values.
    """

    def __init__(self, recorder: Recorder[Any]) -> None:
        self._recorder = recorder
        self._at_the_beginning: set[str] = set()
        self._first_steps: dict[str, int] = {}

    def place(self, name: str) -> tuple[int, bool]:
        """Return the step of a name logged now, and whether it may belong to the next step."""
        moment = self._recorder.moment()
        if moment == "begins":
            self._at_the_beginning.add(name)
        is_between = moment == "between"
        begins = is_between and name in self._at_the_beginning
        step = self._recorder.logs(begins)
        is_first = self._first_steps.setdefault(name, step) == step
        return step, is_between and not begins and is_first


class Logged:
    """Records logged values in the step in progress; never raises.

    Values that are not numbers or tensors, or whose names are not strings, are skipped, and
    reported once.

    Args:
        recorder: receives the values.
        say: prints one line for the user.
    """

    def __init__(self, recorder: Recorder[Any], say: Callable[[str], None]) -> None:
        self._recorder, self._say = recorder, say
        self._steps = LoggedSteps(recorder)
        self._tensors = LoggedTensors(recorder, self._steps)
        self._reported: set[str] = set()

    def number(self, name: str, value: float, timestamp: float | None = None) -> None:
        """Record a number, with the Unix time of its measurement in seconds, if given."""
        if self._is_deferred(name, value, lambda found: self.number(name, np.mean(found))):
            return
        if self._take(name, value, "number", self._add) and name in MEASURED:
            self._report_once(
                name,
                f"{name!r} is stored as 'log.{name}', because mothtrap measures its own {name!r}",
            )
        if timestamp is not None:
            at = functools.partial(self._add_time, value=value)
            self._take(name, timestamp, "time in Unix seconds", at)

    def _add(self, name: str, value: Any) -> None:
        number = float(value)
        _, may_be_next = self._steps.place(name)
        self._recorder.notes.scalar(logged_name(name), "", number, may_be_next=may_be_next)

    def _add_time(self, name: str, timestamp: Any, *, value: Any) -> None:
        time_s, number = float(timestamp), float(value)
        if not math.isfinite(time_s):
            raise ValueError(f"{time_s} is not a time")
        step, may_be_next = self._steps.place(name)
        fact = NumberLogged(step=step, name=logged_name(name), value=number, time_s=time_s)
        self._recorder.notes.observe(fact, may_be_next=may_be_next)

    def tensor(self, name: str, value: Any) -> None:
        """Store all values of a tensor."""
        if self._is_deferred(name, value, lambda found: self.tensor(name, found)):
            return
        self._take(name, value, "tensor", self._tensors.add)

    def _is_deferred(self, name: Any, value: Any, take: Callable[[Any], None]) -> bool:
        """Return whether a framework will pass on the values of a traced tensor later."""
        return any(defers(name, value, take) for defers in self._recorder.deferring)

    def _take(self, name: Any, value: Any, wanted: str, act: Callable[[str, Any], None]) -> bool:
        if not isinstance(name, str):
            kind = type(name).__name__
            reason = f"a name must be a string, not a {kind}"
            self._report_once(f"a {kind} as a name", reason, reason)
            return False
        if self._recorder.left_out():
            return False
        try:
            with aside(self._recorder.unheard):
                act(name, value)
        except Exception as err:  # objects of the user may raise anything
            reason = f"a value was not a {wanted} ({in_one_line(err)})"
            self._report_once(
                name, f"{name!r} got a {type(value).__name__}, not a {wanted}", reason
            )
            return False
        return True

    def _report_once(self, name: str, line: str, reason: str = "") -> None:
        if name not in self._reported:
            self._reported.add(name)
            self._say(f"mothtrap: log: {line}")
            if reason:
                self._recorder.notes.blind(self._recorder.steps, f"values of {name}", reason)


class LoggedTensors:
    """Stores logged tensors, of kind `metric`, in the step in progress.

    The second value of a name in a step is stored as `name#1`, like the second call of a module.

    Args:
        recorder: receives the tensors.
        steps: determines the step to which they belong.
    """

    def __init__(self, recorder: Recorder[Any], steps: LoggedSteps | None = None) -> None:
        self._recorder, self._steps = recorder, steps or LoggedSteps(recorder)
        self._ids: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._step = -1

    def add(self, name: str, value: Any) -> None:
        """Store a value.

        Args:
            name: name of the tensor.
            value: a number, an array, nested lists of numbers, or a tensor of the framework.

        Raises:
            Exception: any exception that the value raises if it has none of these types.
        """
        recorder = self._recorder
        step, may_be_next = self._steps.place(name)
        if step != self._step:
            self._step = step
            self._calls.clear()
        call = self._calls[name] = self._calls.get(name, -1) + 1
        if call >= CALLS_PER_STEP:
            reason = f"more than {CALLS_PER_STEP} values of {name} in one step"
            recorder.notes.observe(Dropped(step=self._step, what="tensors", count=1, reason=reason))
            return
        host: Any = arithmetic
        if recorder.captures.reducer is host:
            value = _on_host(value)
        own = isinstance(value, OWN_ARRAYS)
        tensor = np.asarray(self._as_numbers(value)) if own else value
        copier: Any = arithmetic if own else recorder.captures.reducer
        dtype, shape, _ = copier.describe(tensor)
        label = f"{name}#{call}" if call else name
        if label not in self._ids:
            info = TensorInfo(kind="metric", name=label, shape=shape, dtype=dtype)
            self._ids[label] = recorder.tensors.define(info)
        with recorder.captures.held() if may_be_next else nullcontext():
            recorder.captures.reduce("metric", [self._ids[label]], [tensor], reducer=copier)

    def _as_numbers(self, value: Any) -> Any:
        """Read tensors inside lists with the framework; NumPy would prevent resizing them."""
        if isinstance(value, list | tuple):
            return [self._as_numbers(part) for part in value]
        arithmetic_of_framework: Any = self._recorder.captures.reducer
        is_tensor = hasattr(value, "numpy") and not isinstance(value, OWN_ARRAYS)
        return arithmetic_of_framework.to_numpy(value) if is_tensor else value


def _on_host(value: Any) -> Any:
    """Return a tensor as the array that its framework creates; return other values unchanged."""
    for name in ("numpy", "asnumpy"):  # TensorFlow, Keras, and MXNet
        read = None if isinstance(value, OWN_ARRAYS) else getattr(value, name, None)
        if callable(read):
            return read()
    return value
