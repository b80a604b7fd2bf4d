"""Capture of losses and their targets as tensors, if requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.torch.dtypes import type_name

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_TARGETS = 256
"""Maximum number of loss calls per step whose targets are captured; more are not training."""


class LossTensors:
    """Passes tensors of kinds `loss` and `label` to the recorder."""

    def __init__(self, job: Job) -> None:
        self._job = job
        recorder = job.recorder
        self._captures, self._due, self._tensors = recorder.captures, recorder.due, recorder.tensors
        self._ids: dict[tuple[str, str], int] = {}
        self._targets = self._step = 0

    def loss(self, series: str, place: str | None, value: float, dtype: torch.dtype) -> None:
        """Capture the value of a loss series in the step that closes.

        Args:
            series: label of the series, as in its `loss` scalars.
            place: line of the loss call.
            value: sum over micro-batches.
            dtype: dtype of the loss in the program.
        """
        self._take("loss", series, place, torch.tensor(value, dtype=dtype), Mode.TRAIN)

    def labels(self, place: str, targets: Sequence[torch.Tensor]) -> None:
        """Capture the targets of the loss calls of one backward pass; the first has no number."""
        step = self._job.grouper.step
        if step != self._step:
            self._targets, self._step = 0, step
        self._targets += 1
        if self._targets <= MAX_TARGETS:
            for number, target in enumerate(targets):
                name = f"{place}.{number}" if number else place
                self._take("label", name, place, target, Mode.TRAIN)

    def evaluated(self, key: StepKey, place: str, value: torch.Tensor, target: Any) -> None:
        """Capture a loss and its target outside of training."""
        if self._due.is_due("loss", Mode.EVAL):
            self._take("loss", place, place, value, Mode.EVAL)
        if self._due.is_due("label", Mode.EVAL) and isinstance(target, torch.Tensor):
            self._take("label", place, place, target, Mode.EVAL)
        self._captures.commit_forward(key)

    def _take(
        self, kind: str, name: str, place: str | None, tensor: torch.Tensor, mode: Mode
    ) -> None:
        if not is_plain(tensor):
            return
        if (kind, name) not in self._ids:
            info = TensorInfo(
                kind=kind,
                name=name,
                shape=tuple(tensor.shape),
                dtype=type_name(tensor.dtype),
                location=place,
            )
            self._ids[kind, name] = self._tensors.define(info)
        self._captures.reduce(kind, [self._ids[kind, name]], [tensor], mode)
