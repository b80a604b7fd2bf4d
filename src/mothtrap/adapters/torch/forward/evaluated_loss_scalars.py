"""Record losses that an evaluation computes without a graph as scalars of that evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.forward.evaluations import EvaluationObserver
from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.adapters.torch.losses.loss_tensors import LossTensors
from mothtrap.core.records import Scalar
from mothtrap.core.steps import Mode, StepKey
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

NO_KEYWORDS: Mapping[str, Any] = MappingProxyType({})


class EvaluatedLossScalars:
    """Records the value of each loss; for a loss inside a model, the returned loss.

    Attributes:
        forwards: number of evaluation forward passes so far.
    """

    def __init__(self, job: Job, evaluations: EvaluationObserver, tensors: LossTensors) -> None:
        self._job, self._evaluations, self._tensors = job, evaluations, tensors
        self._given: tuple[Any, Mapping[str, Any]] = (), NO_KEYWORDS
        self._inside: tuple[str | None, torch.Tensor, Any] | None = None
        self._inside_calls = 0
        self.forwards = 0

    def next_key(self, mode: Mode, step: int) -> StepKey:
        """Return the key of the next evaluation forward pass."""
        self.forwards += 1
        return StepKey(step=step, mode=mode, mode_step=self.forwards - 1)

    def keep_inputs(self, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Store the inputs of a loss module, because no graph contains its target."""
        if self._job.recorder.due.is_due("label", Mode.EVAL):
            self._given = args, kwargs

    def take_inputs(self) -> tuple[Any, Mapping[str, Any]]:
        """Return and remove the inputs of the loss module."""
        given, self._given = self._given, ((), NO_KEYWORDS)
        return given

    def called(
        self,
        name: str,
        result: torch.Tensor,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        in_loss: bool,
        in_model: bool,
    ) -> None:
        """Handle the return of a framework loss function, alone or inside a module."""
        self._job.contain_part(
            "evaluations", self._evaluations.loss_called, name, result, args, kwargs
        )
        if not self._evaluations.is_open or in_loss or result.requires_grad:
            return
        if result.numel() == 1 and is_readable(result):
            target = args[1] if len(args) > 1 else kwargs.get("target")
            place = frames.user_location()
            if in_model:  # which may divide a sum afterwards
                self._inside = place, result, target
                self._inside_calls += 1
            else:
                self._record(place, result, target)

    def returned(
        self, module: nn.Module, value: torch.Tensor, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        """Handle a loss module that returned one number."""
        if is_readable(value):
            self._job.contain_part(
                "evaluations", self._evaluations.loss_module_returned, module, value
            )
            target = args[1] if len(args) > 1 else kwargs.get("target")
            self._record(frames.user_location(), value, target)

    def model_returned(self, output: Any) -> None:
        """Handle a model that returned the loss computed inside it, or a derived value."""
        inside, self._inside = self._inside, None
        calls, self._inside_calls = self._inside_calls, 0
        if inside is None:
            return
        place, value, target = inside
        own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if isinstance(own, torch.Tensor) and own.numel() == 1 and is_readable(own):
            if calls == 1:
                returned = self._evaluations.model_returned_loss
                self._job.contain_part("evaluations", returned, value, own)
            value = own
        self._record(place, value, target)

    def _record(self, place: str | None, value: torch.Tensor, target: Any) -> None:
        step = self._job.grouper.step
        key = StepKey(step=step, mode=Mode.EVAL, mode_step=max(0, self.forwards - 1))
        self._job.recorder.evaluation(key, [Scalar("loss", place or "", float(value))])
        self._job.contain_part("losses", self._tensors.evaluated, key, place or "", value, target)
