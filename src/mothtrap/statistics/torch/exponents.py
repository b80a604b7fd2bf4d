"""Distribution of the values of PyTorch tensors over powers of two.

On the host, the compiled part counts in one pass; without it, NumPy counts. On an accelerator,
torch operations count on the device, and 128 numbers per tensor are copied to the host.

Shape suffixes: T = tensors, B = bins, N = elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final

import numpy as np
import torch

from mothtrap.statistics.exponents import BINS, LOWEST_POWER, Counts, count_exponents
from mothtrap.statistics.torch import compiled, one_byte
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.plain import SERIAL_SIZE, flat_elements, has_own_dispatch

_COUNTED: Final = 2 * BINS
_ACCELERATOR_BLOCK: Final = 1 << 24
"""Elements per block: float32, in which torch counts, represents every number up to this one."""
_LAYOUTS: Final = {torch.float32: (torch.int32, 23, 0xFF, 127)}
_WIDE: Final = (torch.int64, 52, 0x7FF, 1023)
"""Integer type of the same size, mantissa bits, largest exponent, and exponent bias."""


def count_exponents_of(tensors: Sequence[torch.Tensor]) -> Counts:
    """Count the values of each tensor by sign and power of two.

    Results are copied to the host once for all tensors of an accelerator.

    Args:
        tensors: as for `rows.summarize`; tensors on `meta` have no values to count.

    Returns:
        int64, shape (T, 2, B), as returned by `statistics.exponents.count_exponents` for each.
    """
    found = np.zeros((len(tensors), 2, BINS), np.int64)
    with torch.no_grad():
        flats = {i: flat_elements(t)[0] for i, t in enumerate(tensors) if _has_values(t)}
        full = {i: flat_N for i, flat_N in flats.items() if flat_N.numel()}
        here = {i: flat_N for i, flat_N in full.items() if flat_N.is_cpu}
        there = {i: flat_N for i, flat_N in full.items() if i not in here}
        for index, counts_2B in (_on_host(here) | _on_accelerators(there)).items():
            found[index] = counts_2B
    return found


def _has_values(tensor: torch.Tensor) -> bool:
    return not (tensor.is_meta or has_own_dispatch(tensor))


def _on_host(flats: dict[int, torch.Tensor]) -> dict[int, Counts]:
    bytewise = {i: flat_N for i, flat_N in flats.items() if flat_N.element_size() == 1}
    others = {i: flat_N for i, flat_N in flats.items() if i not in bytewise}
    places_T3 = compiled.places([*others.values()], compiled.TALLIED)
    direct_T = places_T3[:, 2] >= 0
    found = one_byte.exponents(bytewise)
    if direct_T.any():
        direct = [*compress(others, direct_T)]
        counts_TB = compiled.tallies(places_T3[direct_T])[:, :_COUNTED]
        found |= dict(zip(direct, counts_TB.reshape(-1, 2, BINS), strict=True))
    return found | {i: _in_blocks(others[i]) for i in compress(others, ~direct_T)}


def _in_blocks(flat_N: torch.Tensor) -> Counts:
    """Count in float64, block by block."""
    found = np.zeros((2, BINS), np.int64)
    for block_N in torch.split(flat_N, SERIAL_SIZE):
        wide_N = block_N.to(torch.float64)
        place_13 = compiled.places([wide_N], compiled.TALLIED)
        if place_13[0, 2] >= 0:
            found += compiled.tallies(place_13)[0, :_COUNTED].reshape(2, BINS)
        else:
            found += count_exponents(as_array(wide_N))
    return found


def _on_accelerators(flats: dict[int, torch.Tensor]) -> dict[int, Counts]:
    """Count on accelerators; results are copied to the host once per device."""
    by_device: dict[torch.device, list[int]] = {}
    for index, flat_N in flats.items():
        by_device.setdefault(flat_N.device, []).append(index)
    found: dict[int, Counts] = {}
    for order in by_device.values():
        host = as_array(torch.stack([count_there(flats[i]) for i in order]).cpu())
        found |= dict(zip(order, host.reshape(-1, 2, BINS), strict=True))
    return found


def count_there(flat_N: torch.Tensor) -> torch.Tensor:
    """Count on the tensor's device, without waiting for it.

    Args:
        flat_N: shape (N,), of any real type, N > 0.

    Returns:
        int64, shape (2 * B,), on that device.
    """
    parts = [_count_block(block_N) for block_N in torch.split(flat_N, _ACCELERATOR_BLOCK)]
    return torch.stack(parts).sum(0)[:_COUNTED]


def _count_block(block_N: torch.Tensor) -> torch.Tensor:
    if block_N.dtype is not torch.float64:
        # Metal has no float64; large integers are rounded, but stay in the last bin.
        block_N = block_N.to(torch.float32)
    integer, mantissa, largest, bias = _LAYOUTS.get(block_N.dtype, _WIDE)
    bits_N = block_N.view(integer)
    exponent_N = (bits_N >> mantissa) & largest
    place_N = (exponent_N - (bias + LOWEST_POWER)).clamp_(0, BINS - 1) + BINS * (bits_N >= 0)
    # Doubling removes the sign bit, so a zero of either sign becomes 0.
    uncounted_N = (exponent_N == largest) | (bits_N << 1 == 0)
    place_N = place_N.masked_fill_(uncounted_N, _COUNTED)
    # deterministic mode rejects histc; this one waits
    if torch.are_deterministic_algorithms_enabled():
        return torch.bincount(place_N, minlength=_COUNTED + 1)
    counted = torch.histc(place_N.to(torch.float32), _COUNTED + 1, -0.5, _COUNTED + 0.5)
    return counted.to(torch.int64)
