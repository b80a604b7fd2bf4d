"""A number for each row of a tensor: equal where the rows' bits are equal."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.torch.plain import local

Digests = npt.NDArray[np.uint64]

COLUMNS: Final = 256
"""Elements of a row that are looked at, evenly spread; chosen by hand: all of a row of a
table, a line of text or a small image, and of a photograph enough to tell it apart."""

_INTEGERS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def row_digests(tensor: torch.Tensor, columns: int = COLUMNS) -> Digests:
    """Return 64 bits for every row, the same for rows of the same bits.

    Args:
        tensor: strided, of any real type, shape (rows, ...); copied to the host if need be.
        columns: elements of a row that are looked at, at most.

    Returns:
        uint64, shape (rows,). Two rows that differ in what is looked at get different
        numbers but for one pair in 2^63.
    """
    with torch.no_grad():
        values = local(tensor)
        rows = values.shape[0] if values.ndim else 1
        values = values.reshape(rows, values.numel() // max(1, rows))
        if values.shape[1] > columns:
            values = values[:, :: -(-values.shape[1] // columns)]
        bits = values.contiguous().view(_INTEGERS[values.element_size()]).cpu().numpy()
    # A sum of products with odd numbers, modulo 2^64.
    digest_R: Digests = (bits.astype(np.uint64) * _odd_numbers(bits.shape[1])).sum(axis=1)
    return digest_R


@cache
def _odd_numbers(count: int) -> Digests:
    drawn: Digests = np.random.default_rng(20240101).integers(0, 2**64, count, dtype=np.uint64)
    odd: Digests = drawn | np.uint64(1)
    return odd
