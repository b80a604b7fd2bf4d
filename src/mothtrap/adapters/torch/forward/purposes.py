"""Forwards whose purpose is known only from whether a backward pass follows.

A forward under autograd without a backward pass was an evaluation if its module is in evaluation
mode. Otherwise it was a prediction: a rollout, a teacher, or a discarded loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from mothtrap.core.steps import Mode, StepKey

MAX_OUTPUTS = 8
"""Maximum number of outputs of a forward that are watched for a backward pass. Chosen by hand."""


class ForwardPurpose:
    """Determines from the graph of its outputs whether a backward pass reaches a forward pass.

    Args:
        module: the called module.
        outputs: its outputs.
        step: step of the forward.
        next_key: counts a forward pass that was not training, and returns its key.
    """

    def __init__(
        self,
        module: nn.Module,
        outputs: Sequence[torch.Tensor],
        step: int,
        next_key: Callable[[Mode, int], StepKey],
    ) -> None:
        self._mode = Mode.PREDICT if module.training else Mode.EVAL
        self._step, self._next_key = step, next_key
        self._is_reached = False
        reaching = [output for output in outputs if output.requires_grad]
        for output in reaching[:MAX_OUTPUTS]:
            if output.grad_fn is None:
                self._is_reached = True  # a leaf has no graph node
            else:
                output.grad_fn.register_prehook(self._reached)
        if len(reaching) > MAX_OUTPUTS:
            self._is_reached = True

    def __call__(self) -> StepKey | None:
        """Return None if the forward was training, otherwise the key of a separate record."""
        return None if self._is_reached else self._next_key(self._mode, self._step)

    def _reached(self, _gradients: object) -> None:
        self._is_reached = True
