"""Tensors that users hand over themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from mothtrap.capture.recorder import Recorder
from mothtrap.core.observations import Dropped
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import numpy as arithmetic

CALLS_PER_STEP = 256
"""Values of one name in one step that are kept; chosen by hand, as for module calls."""

OWN_ARRAYS = (np.ndarray, np.generic, bool, int, float, complex, list, tuple)
"""What becomes a numpy array; everything else must be a tensor of the framework."""


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
        if recorder.step != self._step:
            self._step = recorder.step
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
