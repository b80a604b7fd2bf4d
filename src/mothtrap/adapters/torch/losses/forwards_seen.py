"""Forward passes of models, as seen by the losses computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs
from mothtrap.adapters.torch.losses.loss_tensors import LossTensors


class ForwardsSeen(Protocol):
    """The latest forward passes.

    Attributes:
        retained: outputs of the latest training forward pass.
        recomputes: a module ran inside a backward: checkpointing is in use.
        loss_tensors: receives captured losses.
        loss_trained: receives series and value of the loss of a training step.
    """

    retained: RetainedOutputs
    recomputes: bool
    loss_tensors: LossTensors
    loss_trained: Callable[[str, float], None]

    def loss_location(self, root: torch.Tensor) -> str | None:
        """Return the location of the loss module whose output is the root of a backward pass."""
