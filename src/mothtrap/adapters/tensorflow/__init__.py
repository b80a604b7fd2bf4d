"""TensorFlow: loops with a gradient tape, eager or in a `tf.function`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import tensorflow as tf

from mothtrap.adapters.tensorflow.handle import TensorFlowHandle
from mothtrap.adapters.tensorflow.reports import REPORTS
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan

__all__ = ["REPORTS"]

FRAMEWORK: Final = "tensorflow"
REQUIRES: Final = "tensorflow>=2.16"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "own"


def refines() -> str | None:
    """Return None: TensorFlow trains on no other framework."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a module with variables."""
    return isinstance(target, tf.Module)


def attach(job: Job, targets: Sequence[object]) -> TensorFlowHandle:
    """Watch the trainings of a module's variables; no others.

    Raises:
        TypeError: a target is no module.
    """
    for target in targets:
        if not accepts(target):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__} of TensorFlow: expected a tf.Module"
            )
    return TensorFlowHandle(job, targets)


def attach_process(job: Job) -> TensorFlowHandle:
    """Watch every training of this process."""
    return TensorFlowHandle(job)


def attach_replay(plan: ReplayPlan) -> None:
    """Do nothing: no snapshots are taken of TensorFlow that could be replayed."""


def environment() -> Environment:
    """Return the place of this process among the workers of `tf.distribute`."""
    versions = {"tensorflow": str(tf.__version__)}
    context = tf.distribute.get_strategy().cluster_resolver
    if context is None or not context.task_type:
        return Environment(versions=versions)
    size = sum(len(jobs) for jobs in context.cluster_spec().as_dict().values())
    return Environment(rank=int(context.task_id or 0), size=size, versions=versions)
