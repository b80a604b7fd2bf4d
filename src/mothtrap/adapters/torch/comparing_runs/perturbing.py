"""Change the initial weights by their rounding error.

A run of the same script then shows how far rounding alone drives two runs apart, which is the
tolerance for a comparison of one process with many.
"""

from __future__ import annotations

import torch
from torch import nn

from mothtrap.tracing.jobs.identity import ByIdentity

SEED = 0


class Perturbation:
    """Perturbs each model once, before its first training forward pass."""

    def __init__(self) -> None:
        self._changed: ByIdentity[nn.Module, bool] = ByIdentity()

    def called(self, model: nn.Module) -> None:
        """Perturb the weights of a model whose training forward pass begins.

        Each element is multiplied by 1 + eps or 1 - eps at random, where eps is the machine epsilon
        of its type. The script's random numbers do not change.

        Args:
            model: the model that the script calls.
        """
        if model in self._changed:
            return
        self._changed[model] = True
        draws = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    signs = torch.randint(0, 2, parameter.shape, generator=draws) * 2 - 1
                    factors = 1 + signs.double() * torch.finfo(parameter.dtype).eps
                    parameter.mul_(factors.to(parameter.dtype).to(parameter.device))
