"""Metrics of a script that compare every prediction with every target.

Keras removes an axis of size 1 before it calls a loss, but not before it calls a metric that is a
function. Programs are inspected while they are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from mothtrap.adapters.tensorflow.broadcasts import is_broadcast
from mothtrap.core.adapters import Job
from mothtrap.core.facts.losses import MetricBroadcast
from mothtrap.tracing.replacements import Replacements, drop_own_frame
from mothtrap.tracing.source import frames

PAIRING: Final = frozenset(
    {
        *("Sub", "SquaredDifference", "Mul", "AddV2", "RealDiv", "DivNoNan", "Maximum", "Minimum"),
        *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
        *("LogicalAnd", "LogicalOr"),
    }
)
"""Operations that compare or combine two tensors element by element."""
MAX_OPERATIONS: Final = 256


class MetricProbes:
    """Inspects the operations of metrics that are functions.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._reported: set[str] = set()

    def install(self, replacements: Replacements) -> None:
        """Replace the method that calls the function."""
        replacements.replace(keras.metrics.MeanMetricWrapper, "update_state", self._around)

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        job, look = self._job, self._look

        def update_state(self: Any, y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
            before = job.contain(_count)
            try:
                return original(self, y_true, y_pred, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                if before is not None:
                    job.contain_part("metrics", look, self, y_true, y_pred, before)

        return update_state

    def _look(self, metric: Any, target: Any, prediction: Any, before: int) -> None:
        name = str(metric.name)
        tensors = tf.is_tensor(target) and tf.is_tensor(prediction)
        if name in self._reported or not tensors or not is_broadcast(prediction, target):
            return
        added = tf.compat.v1.get_default_graph().get_operations()[before:][:MAX_OPERATIONS]
        if any(_pairs(operation, target, prediction) for operation in added):
            self._reported.add(name)
            place = frames.returned_at(metric._fn)  # private to Keras 3
            self._job.fact(
                MetricBroadcast(
                    step=self._job.now.step,
                    metric=name,
                    prediction_axes=prediction.shape.rank,
                    target_axes=target.shape.rank,
                    location=place or frames.user_location(),
                )
            )


def _count() -> int | None:
    """Return the number of operations of the program that is traced; None in an eager step."""
    if tf.executing_eagerly():
        return None
    return len(tf.compat.v1.get_default_graph().get_operations())


def _pairs(operation: Any, target: Any, prediction: Any) -> bool:
    """Return whether an operation compares each value of a target with each prediction."""
    if operation.type not in PAIRING or not is_broadcast(*operation.inputs):
        return False
    sources = [_sources(one, (target, prediction)) for one in operation.inputs]
    return sources in ([{0}, {1}], [{1}, {0}])


def _sources(tensor: Any, known: Sequence[Any]) -> set[int]:
    """Return the indices of the known tensors from which a tensor was computed."""
    found, waiting, seen = set[int](), [tensor], set[int]()
    while waiting and len(seen) < MAX_OPERATIONS:
        one = waiting.pop()
        index = next((i for i, each in enumerate(known) if each is one), None)
        if index is not None:
            found.add(index)
        elif id(one.op) not in seen:
            seen.add(id(one.op))
            waiting += list(one.op.inputs)
    return found
