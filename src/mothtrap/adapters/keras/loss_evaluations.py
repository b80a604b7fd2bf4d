"""Losses that no tape records: evaluations in custom loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from mothtrap.adapters.keras import losses
from mothtrap.adapters.tensorflow import raw_losses
from mothtrap.adapters.tensorflow.probes.cells import Array
from mothtrap.adapters.tensorflow.probes.loss_records import LossRecord
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.raw_records import RawLoss
from mothtrap.adapters.tensorflow.probes.slots import LOSS_ROWS, Slot
from mothtrap.core.adapters import Job
from mothtrap.tracing.describe.loop_evaluations import LoopEvaluations
from mothtrap.tracing.describe.loss_numbers import Called

MAX_SCORES: Final = 1 << 20
"""Maximum number of scores of a batch for which the labels of an evaluation are inspected."""


class LossEvaluations:
    """Reports the losses of evaluations.

    Args:
        job: receives the evaluations.

    Attributes:
        open: evaluations that the script computes between two steps.
    """

    def __init__(self, job: Job) -> None:
        self.open = LoopEvaluations(job)

    def ran(self, programs: Sequence[Look]) -> None:
        """Process programs that made no step: evaluations, if they computed losses."""
        for look in programs:
            for call, value in look.evaluated:
                self.evaluated(call, value)

    def evaluated(self, call: LossRecord | RawLoss, value: Slot) -> None:
        """Record a loss outside of any tape.

        Args:
            call: call of the loss.
            value: mean loss per row and the number of rows, shape (2,).
        """
        mean, rows = value.read().tolist()
        look = partial(_labels, call) if call.target is not None and rows <= LOSS_ROWS else None
        self.open.add(call.location, mean, int(rows), look)


def _labels(call: LossRecord | RawLoss) -> Called | None:
    assert call.target is not None
    if isinstance(call, RawLoss):
        return raw_losses.labels(call)
    return labels(call, call.target.read())


def labels(call: LossRecord, target: Array) -> Called | None:
    """Return a loss call with targets only; None for an unknown loss."""
    if losses.name_of(call.loss).startswith("sparse"):
        target = target.reshape(-1)
        prediction = np.zeros((target.size, call.classes or 1), np.float32)
    else:
        prediction = np.zeros(target.shape, np.float32)
    if prediction.size > MAX_SCORES:
        return None
    one = losses.called(call, target, prediction)
    return None if one is None else replace(one, prediction=np.zeros(0))
