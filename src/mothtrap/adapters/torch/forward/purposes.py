"""Forwards of which only a backward shows that they were training.

A forward under autograd from which no backward comes was an evaluation where its module is set
to that, and a prediction else: a rollout, a teacher, a loss that is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from mothtrap.core.steps import Mode, StepKey

MAX_OUTPUTS = 8
"""Outputs of a forward whose backward is noticed. Chosen by hand."""


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
                self._is_reached = True  # a leaf: no node has its gradient
            else:
                output.grad_fn.register_prehook(self._reached)
        if len(reaching) > MAX_OUTPUTS:
            self._is_reached = True

    def __call__(self) -> StepKey | None:
        """Return None if the forward was training, else the key of its own record."""
        return None if self._is_reached else self._next_key(self._mode, self._step)

    def _reached(self, _gradients: object) -> None:
        self._is_reached = True
