"""Modules that drop values at random in training."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from mothtrap.adapters.torch.job.own_modes import drops_values


def is_dropout(module: nn.Module) -> bool:
    """Return whether a module would drop values in training."""
    return share_dropped(module) > 0 or drops_values(module)


def share_dropped(module: nn.Module) -> float:
    """Return the share of values that a module drops in training; 0 also if it is unknown."""
    if isinstance(module, _DropoutNd):
        return float(module.p)
    if isinstance(module, nn.MultiheadAttention):
        return float(module.dropout)
    if isinstance(module, nn.RNNBase) and module.num_layers > 1:
        return float(module.dropout)
    return 0.0
