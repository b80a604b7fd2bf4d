"""The forwards of models, as the losses made of them see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs
from mothtrap.adapters.torch.losses.loss_tensors import LossTensors


class ForwardsSeen(Protocol):
    """The latest forwards.

    Attributes:
        retained: outputs of the latest one that is trained.
        recomputes: a module ran inside a backward: checkpointing is in use.
        loss_tensors: takes what is captured of losses.
        loss_trained: takes series and value of the loss of a training step.
    """

    retained: RetainedOutputs
    recomputes: bool
    loss_tensors: LossTensors
    loss_trained: Callable[[str, float], None]

    def loss_location(self, root: torch.Tensor) -> str | None:
        """Return the place of the loss module's call whose output is the root of a backward."""
