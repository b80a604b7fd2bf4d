"""How the values of PyTorch tensors are spread over powers of two.

On the host the compiled part counts, in one pass; without it numpy does. On an accelerator
operations of torch count where the tensor lies, and 129 numbers of each tensor are copied over.

Shape suffixes: T = tensors, B = bins, N = elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from mothtrap.statistics.exponents import BINS, LOWEST_POWER, Counts, count_exponents
from mothtrap.statistics.torch import compiled, one_byte
from mothtrap.statistics.torch.plain import flat_elements

_COUNTED: Final = 2 * BINS
_ACCELERATOR_BLOCK: Final = 1 << 24
"""Elements at a time: float32, in which torch counts, holds every number up to it."""
_HOST_BLOCK: Final = 1 << 18  # elements at a time: temporaries stay in a CPU's cache
_LAYOUTS: Final = {torch.float32: (torch.int32, 23, 0xFF, 127)}
_WIDE: Final = (torch.int64, 52, 0x7FF, 1023)
"""Integers of the same size, bits of the mantissa, the largest exponent, and its bias."""


def count_exponents_of(tensors: Sequence[torch.Tensor]) -> Counts:
    """Count the values of each tensor by sign and power of two.

    Results of accelerators are copied to the host once for each.

    Args:
        tensors: as for `rows.summarize`; of a tensor on `meta` there is nothing to count.

    Returns:
        int64, shape (T, 2, B), as `statistics.exponents.count_exponents` has them of each.
    """
    found = np.zeros((len(tensors), 2, BINS), np.int64)
    elsewhere: dict[torch.device, list[tuple[int, torch.Tensor]]] = {}
    with torch.no_grad():
        for index, tensor in enumerate(tensors):
            if tensor.is_meta:
                continue
            flat_N, _ = flat_elements(tensor)
            if not flat_N.numel():
                continue
            if flat_N.is_cpu:
                found[index] = _on_host(flat_N)
            else:
                elsewhere.setdefault(flat_N.device, []).append((index, count_there(flat_N)))
        for counted in elsewhere.values():
            host = torch.stack([counts for _, counts in counted]).cpu().numpy()
            for (index, _), counts in zip(counted, host, strict=True):
                found[index] = counts.reshape(2, BINS)
    return found


def _on_host(flat_N: torch.Tensor) -> Counts:
    if flat_N.element_size() == 1:
        return one_byte.exponents(one_byte.tallies(flat_N), flat_N.dtype)
    place_13 = compiled.places([flat_N], compiled.TALLIED)
    if place_13[0, 2] >= 0:
        return compiled.tallies(place_13)[0, :_COUNTED].reshape(2, BINS)
    found = np.zeros((2, BINS), np.int64)
    for block_N in torch.split(flat_N, _HOST_BLOCK):
        found += count_exponents(block_N.to(torch.float64).numpy())
    return found


def count_there(flat_N: torch.Tensor) -> torch.Tensor:
    """Count on the device of a tensor, without waiting for it.

    Args:
        flat_N: shape (N,), of any real type, N > 0.

    Returns:
        int64, shape (2 * B,), on that device.
    """
    parts = [_count_block(block_N) for block_N in torch.split(flat_N, _ACCELERATOR_BLOCK)]
    return torch.stack(parts).sum(0)[:_COUNTED]


def _count_block(block_N: torch.Tensor) -> torch.Tensor:
    if block_N.dtype is not torch.float64:
        # Metal has no float64; large integers, rounded, stay in the last bin.
        block_N = block_N.to(torch.float32)
    integer, mantissa, largest, bias = _LAYOUTS.get(block_N.dtype, _WIDE)
    bits_N = block_N.view(integer)
    exponent_N = (bits_N >> mantissa) & largest
    place_N = (exponent_N - (bias + LOWEST_POWER)).clamp_(0, BINS - 1) + BINS * (bits_N >= 0)
    # Twice a zero of either sign is 0: the bit of the sign leaves.
    uncounted_N = (exponent_N == largest) | (bits_N << 1 == 0)
    place_N = place_N.masked_fill_(uncounted_N, _COUNTED)
    if torch.are_deterministic_algorithms_enabled():  # which refuses histc; this waits
        return torch.bincount(place_N, minlength=_COUNTED + 1)
    counted = torch.histc(place_N.to(torch.float32), _COUNTED + 1, -0.5, _COUNTED + 0.5)
    return counted.to(torch.int64)
