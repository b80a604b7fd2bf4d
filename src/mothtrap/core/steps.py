"""Position in a training job."""

from __future__ import annotations

import enum
import operator

import msgspec


class Mode(enum.StrEnum):
    """Purpose of a run of the model."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "predict"


class StepKey(msgspec.Struct, frozen=True, order=True, kw_only=True, gc=False):
    """One moment of a job.

    `step` counts optimizer steps finished before this one began, from 0, over the
    whole job. `mode_step` counts inside the mode: steps for train, root forwards
    for eval and predict.
    """

    step: int
    mode: Mode = Mode.TRAIN
    mode_step: int = 0


def step_number(step: int | StepKey) -> int:
    """Return the job's step of a moment, or of a number as it is given.

    Raises:
        TypeError: it is neither.
    """
    try:
        return step.step if isinstance(step, StepKey) else operator.index(step)
    except TypeError as err:
        raise TypeError(f"a step is a whole number or a StepKey, not {step!r}") from err
