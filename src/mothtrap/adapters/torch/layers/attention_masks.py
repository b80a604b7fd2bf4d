"""Masks of zeros and ones in attention that expects 0 and minus infinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_plain

MAX_ELEMENTS = 1 << 22
_PLACE, _PADDING_PLACE = 5, 3
"""Positions of `attn_mask` and `key_padding_mask` in the forward of `nn.MultiheadAttention`."""


def is_of_ones(mask: object) -> bool:
    """Return whether a floating-point mask contains both 0 and 1, and no other value."""
    if not isinstance(mask, torch.Tensor) or not is_plain(mask) or mask.requires_grad:
        return False
    if not mask.is_floating_point() or not 1 < mask.numel() <= MAX_ELEMENTS:
        return False
    ones, zeros = mask == 1, mask == 0
    return bool((ones | zeros).all() & ones.any() & zeros.any())


def given_to(
    module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> torch.Tensor | None:
    """Return the mask of zeros and ones that was passed to `nn.MultiheadAttention`."""
    if not isinstance(module, nn.MultiheadAttention):
        return None
    for name, place in (("attn_mask", _PLACE), ("key_padding_mask", _PADDING_PLACE)):
        mask = kwargs.get(name, args[place] if len(args) > place else None)
        if isinstance(mask, torch.Tensor) and is_of_ones(mask):
            return mask
    return None
