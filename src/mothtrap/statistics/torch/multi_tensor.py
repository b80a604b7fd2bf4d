"""One kernel for the statistics of many tensors on an accelerator, written in Triton.

Tensors are cut into pieces, and each program of the kernel reads one piece once. A table has
their addresses and lengths, so a hundred tensors of one type need only one launch. Sums are
float64, so 32-bit values neither overflow nor underflow, and no second pass is needed. Deciding
about a second pass would require waiting for the first.

Shape suffixes: T = tensors, P = pieces, E = columns of `exact.EXACT`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl

Integers = npt.NDArray[np.int64]

TILE: Final = tl.constexpr(512)
"""Elements that a program reads at a time: 16 bytes of float32 per thread, with four warps."""
PIECES: Final = 2048
"""Approximate number of pieces of all tensors together: enough programs for the largest
accelerators, and 150 kB to transfer. Chosen by hand; not measured.
"""
WARPS: Final = 4

KINDS: Final[dict[torch.dtype, Any]] = {
    torch.float32: tl.float32,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.uint8: tl.uint8,
    torch.int8: tl.int8,
    torch.int16: tl.int16,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
}
"""Types whose squares fit into float64."""


def reduce_pieces(
    flats: Sequence[torch.Tensor], span: int, upload: Callable[[Integers], torch.Tensor]
) -> torch.Tensor:
    """Reduce the pieces of tensors of one type in one launch, without waiting for it.

    Args:
        flats: shape (N,), N > 0, contiguous, of one type out of `KINDS`, on one device.
        span: elements of a piece; the last piece of a tensor may be shorter.
        upload: copies a table to the device.

    Returns:
        float64, shape (P * E,), the pieces of the first tensor first.
    """
    pieces = sum(-(-flat.numel() // span) for flat in flats)
    first = flats[0]
    out_PE = torch.empty(pieces * 9, dtype=torch.float64, device=first.device)
    tabled = len(flats) > 1
    table = upload(_table(flats, span)) if tabled else first
    kernel()[(pieces,)](
        table,
        out_PE,
        0 if tabled else first.numel(),
        span,
        KIND=KINDS[first.dtype],
        WIDE=tl.float32 if first.dtype.is_floating_point else tl.float64,
        TABLED=tabled,
        num_warps=WARPS,
        enable_fp_fusion=True,  # set explicitly, because Triton 3.9 warns about the default
    )
    return out_PE


def span_of(elements: int) -> int:
    """Return the number of elements per piece for a given total."""
    tile = int(TILE.value)
    return tile * max(1, -(-elements // (PIECES * tile)))


@functools.cache
def kernel() -> Any:
    """Return the kernel, which is compiled or loaded from Triton's cache at its first launch."""
    # Otherwise it would be compiled again for a length of 1, or a multiple of 16.
    return triton.jit(_reduce, do_not_specialize=["count", "span"])


def _table(flats: Sequence[torch.Tensor], span: int) -> Integers:
    """Return address and length of every piece, int64, shape (P, 2)."""
    size_T = np.array([flat.numel() for flat in flats])
    address_T = np.array([flat.data_ptr() for flat in flats], np.int64)
    pieces_T = -(-size_T // span)
    owner_P = np.repeat(np.arange(len(flats)), pieces_T)
    first_T = np.cumsum(pieces_T) - pieces_T
    begin_P = (np.arange(len(owner_P)) - first_T[owner_P]) * span
    address_P = address_T[owner_P] + begin_P * flats[0].element_size()
    return np.stack([address_P, np.minimum(span, size_T[owner_P] - begin_P)], axis=1)


def _reduce(
    table,  # int64 addresses and lengths, or the one tensor itself
    out,
    count,
    span,
    KIND: tl.constexpr,
    WIDE: tl.constexpr,
    TABLED: tl.constexpr,
):
    piece = tl.program_id(0).to(tl.int64)
    if TABLED:
        start = tl.load(table + 2 * piece).to(tl.pointer_type(KIND))
        size = tl.load(table + 2 * piece + 1)
    else:
        start = table + piece * span
        size = tl.minimum(count - piece * span, span)
    lanes = tl.arange(0, TILE)
    nan = tl.zeros((TILE,), tl.int64)
    finite = tl.zeros((TILE,), tl.int64)
    zero = tl.zeros((TILE,), tl.int64)
    low = tl.full((TILE,), float("inf"), WIDE)
    high = tl.full((TILE,), float("-inf"), WIDE)
    # Relative to one of its values, a lane's sum of squares loses at most one digit per element.
    # Relative to zero, it loses all digits if the spread is small.
    pivot = tl.zeros((TILE,), tl.float64)
    apart = tl.zeros((TILE,), tl.float64)
    square = tl.zeros((TILE,), tl.float64)
    magnitude = tl.zeros((TILE,), tl.float64)
    for at in range(0, size, TILE):
        there = at + lanes < size
        x = tl.load(start + at + lanes, mask=there, other=0).to(WIDE)
        good = there & (tl.abs(x) < float("inf"))
        nan += (there & (x != x)).to(tl.int64)
        zero += (there & (x == 0)).to(tl.int64)
        low = tl.where(good & (x < low), x, low)
        high = tl.where(good & (x > high), x, high)
        exact = tl.where(good, x, 0.0).to(tl.float64)
        pivot = tl.where(good & (finite == 0), exact, pivot)
        finite += good.to(tl.int64)
        away = tl.where(good, exact - pivot, 0.0)
        apart += away
        square += away * away
        magnitude += tl.abs(exact)
    share = finite.to(tl.float64)
    own = tl.maximum(share, 1.0)
    total = tl.sum(share)
    mean_of_lane = pivot + apart / own
    mean = tl.sum(mean_of_lane * share) / tl.maximum(total, 1.0)
    between = mean_of_lane - mean
    inside = tl.maximum(square - apart * apart / own, 0.0)
    deviation = tl.sum(inside + share * between * between)
    nans = tl.sum(nan).to(tl.float64)
    hollow = tl.where(total > 0, 0.0, float("nan"))
    row = out + 9 * piece
    tl.store(row, nans)
    tl.store(row + 1, size - total - nans)
    tl.store(row + 2, tl.sum(zero).to(tl.float64))
    tl.store(row + 3, tl.min(low).to(tl.float64) + hollow)
    tl.store(row + 4, tl.max(high).to(tl.float64) + hollow)
    tl.store(row + 5, mean + hollow)
    tl.store(row + 6, tl.sqrt(deviation))
    tl.store(row + 7, tl.sum(magnitude))
    tl.store(row + 8, tl.sqrt(deviation + total * mean * mean))
