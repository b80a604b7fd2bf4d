"""Modules that drop values at random in training."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.dropout import _DropoutNd


def is_dropout(module: nn.Module) -> bool:
    """Return whether a module would drop values in training."""
    return share_dropped(module) > 0


def share_dropped(module: nn.Module) -> float:
    """Return the share of values that a module drops in training."""
    if isinstance(module, _DropoutNd):
        return float(module.p)
    if isinstance(module, nn.MultiheadAttention):
        return float(module.dropout)
    if isinstance(module, nn.RNNBase) and module.num_layers > 1:
        return float(module.dropout)
    return 0.0
