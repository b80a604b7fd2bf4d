"""Position in a training job."""

from __future__ import annotations

import enum
import operator

import msgspec


class Mode(enum.StrEnum):
    """Purpose of a model's forward pass: training, evaluation, or prediction."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "predict"


class StepKey(msgspec.Struct, frozen=True, order=True, kw_only=True, gc=False):
    """Key of a step: the job's step number, the mode, and the number inside the mode.

    `step` is the number of optimizer steps of the job that finished before this step began.
    `mode_step` counts steps inside the mode from 0: optimizer steps for train, forward passes of
    whole models for eval and predict.
    """

    step: int
    mode: Mode = Mode.TRAIN
    mode_step: int = 0


def step_number(step: int | StepKey) -> int:
    """Return the step number of a `StepKey` or of a number.

    Raises:
        TypeError: the argument is neither.
    """
    try:
        return step.step if isinstance(step, StepKey) else operator.index(step)
    except TypeError as err:
        raise TypeError(f"a step is a whole number or a StepKey, not {step!r}") from err
