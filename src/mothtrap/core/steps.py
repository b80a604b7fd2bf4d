"""Where in a training job something happened."""

from __future__ import annotations

import enum

import msgspec


class Mode(enum.StrEnum):
    """What the model was run for."""

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
