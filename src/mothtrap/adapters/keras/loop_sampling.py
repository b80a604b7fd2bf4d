"""Skip observation of short steps in custom loops with one `tf.function` call per step.

Other programs that such a loop calls, such as evaluations, are always observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

from mothtrap.adapters.keras import internals
from mothtrap.adapters.keras.steps import Steps
from mothtrap.adapters.tensorflow.hooks import SHARED
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.tracing.steps.step_sampling import Rests

MOST_PROGRAMS: Final = 4
"""Maximum number of traces whose losses are read while skipping: one per batch shape."""


class LoopRests:
    """Skips observation of function calls, except whether the loss is finite.

    Args:
        rests: decides which calls to skip.
        steps: records the steps.
        between: called before a skipped step, to report events since the previous one.
        begin_late: called after a step that should be observed after all.
    """

    def __init__(
        self,
        rests: Rests,
        steps: Steps,
        between: Callable[[], None],
        begin_late: Callable[[], None],
    ) -> None:
        self._rests, self._steps = rests, steps
        self._between, self._begin_late = between, begin_late
        self._function: Any = None
        self._losses: list[Slot] = []

    def stepped(self, function: Any, looks: Sequence[Look]) -> None:
        """Record a step of a call with its observations; the next calls may be skipped."""
        if function is not self._function:
            self._function, self._losses = function, []
        losses = [target.value for look in looks for target in look.targets]
        if len(losses) == 1 and not any(loss is losses[0] for loss in self._losses):
            self._losses += losses
        is_checked = len(losses) == 1 and len(self._losses) <= MOST_PROGRAMS
        self._rests.watched(function, plain=self._steps.was_plain and is_checked)
        if self._rests.on:
            SHARED.sampling = self

    def passes(self, function: Any) -> bool:
        """Return whether to skip observation of a call."""
        if not self._rests.on:
            SHARED.sampling = None
            return False
        if function is not self._function or not self._rests.passes(function):
            return False
        self._between()
        self._steps.rest()
        return True

    def passed(self, result: Any) -> bool:
        """Count a skipped call if its loss is finite; return whether it is."""
        returned = [one for one in tf.nest.flatten(result) if _is_scalar(one)]
        if returned:
            is_finite = all(map(internals.is_finite_here, returned))
        else:
            is_finite = all(math.isfinite(float(loss.read())) for loss in self._losses)
        if is_finite:
            self._rests.passed()
        else:
            self._rests.end()
            self._begin_late()
        return is_finite


def _is_scalar(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype.is_floating and not value.shape.rank
