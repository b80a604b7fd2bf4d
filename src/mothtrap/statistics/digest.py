"""The fingerprint of an array: equal for equal bytes, type and shape."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

ROW_BYTES, BLOCKS = 4096, 8
"""Bytes of a row that are looked at, at most, and in how many pieces of a longer one. Chosen
by hand: a few hundred rows in a fifth of a millisecond, and photographs still differ."""


def digest_bytes(data: npt.NDArray[np.uint8], dtype: str, shape: Sequence[int]) -> int:
    """Return the xxh3_64 of raw bytes, seeded by element type and shape.

    Args:
        data: uint8, shape (bytes,): the elements in C order.
        dtype: name of the element type without its library, e.g. `bfloat16`.
        shape: lengths of the axes.
    """
    return xxhash.xxh3_64_intdigest(data.data, seed=_seed(dtype, tuple(shape)))


def rows_sum(data_RN: npt.NDArray[np.uint8]) -> int:
    """Return 64 bits that are equal for the same rows in any order.

    Those of parts of a set of rows add up, modulo 2^64, to those of the whole.

    Args:
        data_RN: uint8, shape (rows, bytes of a row), C order.
    """
    data, size = data_RN.reshape(-1).data, data_RN.shape[1]
    ends = range(0, data_RN.size, size) if size else ()
    digest = xxhash.xxh3_64_intdigest
    return sum(digest(data[at : at + size]) for at in ends) & 0xFFFF_FFFF_FFFF_FFFF


def digest_rows(
    data: npt.NDArray[np.uint8], rows: int, dtype: str, shape: Sequence[int]
) -> list[int]:
    """Return for each row of an array the xxh3_64 of its bytes, seeded by type and shape.

    Of rows of more than `ROW_BYTES` evenly spread pieces of as many bytes together count.

    Args:
        data: uint8, shape (rows * bytes of a row,): the elements in C order.
        rows: at least 1.
        dtype: name of the element type without its library, e.g. `bfloat16`.
        shape: of one row.
    """
    seed = _seed(dtype, tuple(shape))
    size = len(data) // rows
    if size > ROW_BYTES:
        length = ROW_BYTES // BLOCKS
        whole_RN = data.reshape(rows, size)
        starts = [(size - length) * block // (BLOCKS - 1) for block in range(BLOCKS)]
        pieces = [whole_RN[:, start : start + length] for start in starts]
        data = np.concatenate(pieces, axis=1).reshape(-1)
        size = ROW_BYTES
    held = data.data
    hashed = xxhash.xxh3_64_intdigest
    return [hashed(held[at : at + size], seed) for at in range(0, rows * size, size or 1)][:rows]


@functools.lru_cache(maxsize=1024)
def _seed(dtype: str, shape: tuple[int, ...]) -> int:
    return xxhash.xxh3_64_intdigest(f"{dtype}{shape}".encode())
