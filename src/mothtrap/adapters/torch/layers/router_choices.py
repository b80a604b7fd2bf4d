"""Mixtures of experts: the layer that scores the experts, and the experts that rows choose."""

from __future__ import annotations

import torch
from torch import nn

MIN_EXPERTS = 2
MAX_ROWS = 4096


def routers(root: nn.Module) -> dict[int, str]:
    """Return the layers that score experts, by identity, with the location of the experts.

    A router is a linear layer next to a `ModuleList` whose members are modules of one class with
    weights. It has one output for each member.
    """
    found: dict[int, str] = {}
    for path, parent in root.named_modules():
        lists = [
            (name, child)
            for name, child in parent._modules.items()
            if isinstance(child, nn.ModuleList) and _are_experts(child)
        ]
        if not lists:
            continue
        for child in parent._modules.values():
            for name, experts in lists:
                if isinstance(child, nn.Linear) and child.out_features == len(experts):
                    found[id(child)] = f"{path}.{name}" if path else name
    return found


def _are_experts(members: nn.ModuleList) -> bool:
    if len(members) < MIN_EXPERTS or len({type(member) for member in members}) != 1:
        return False
    first = members[0]  # a ModuleList may contain None instead of modules
    return first is not None and next(first.parameters(), None) is not None


def choices(scores: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Count, for each expert, the rows for which it has the highest score.

    Args:
        scores: shape (..., experts), output of the router.

    Returns:
        int64, shape (experts,), and the number of rows.
    """
    experts = scores.shape[-1]
    rows = scores.detach().reshape(-1, experts)
    rows = rows[:: max(1, len(rows) // MAX_ROWS)]
    chosen = rows.argmax(dim=-1, keepdim=True)
    counts = (chosen == torch.arange(experts, device=rows.device)).sum(dim=0)
    return counts, len(rows)
