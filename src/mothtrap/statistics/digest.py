"""Digests of arrays: equal for equal bytes, type and shape."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from mothtrap.statistics import built

Digests = npt.NDArray[np.uint64]

COLUMNS = 256
"""Maximum number of inspected elements of a row, evenly spaced. Chosen by hand: all elements of a
table row, a line of text or a small image, and enough of a photograph to recognize it.
"""

ROW_BYTES, BLOCKS = 4096, 8
"""Maximum number of inspected bytes of a row, and number of pieces for a longer row. Chosen by
hand: a few hundred rows take a fifth of a millisecond, and photographs still differ.
"""


def digest_bytes(data: npt.NDArray[np.uint8], dtype: str, shape: Sequence[int]) -> int:
    """Return the xxh3_64 of raw bytes, seeded by element type and shape.

    Args:
        data: uint8, shape (bytes,): the elements in C order.
        dtype: name of the element type without its library, e.g. `bfloat16`.
        shape: lengths of the axes.
    """
    return xxhash.xxh3_64_intdigest(data.data, seed=seed_of(dtype, tuple(shape)))


def rows_sum(data_RN: npt.NDArray[np.uint8]) -> int:
    """Return a 64-bit digest that is equal for the same rows in any order.

    The digests of disjoint parts add up, modulo 2^64, to the digest of the whole.

    Args:
        data_RN: uint8, shape (rows, bytes of a row), C order.
    """
    return int(np.add.reduce(_each(data_RN.reshape(-1), data_RN.shape[1], 0)))


def digest_rows(
    data: npt.NDArray[np.uint8], rows: int, dtype: str, shape: Sequence[int]
) -> Digests:
    """Return the xxh3_64 of each row of an array, seeded by type and shape.

    For rows longer than `ROW_BYTES`, evenly spread pieces with this total size are used.

    Args:
        data: uint8, shape (rows * bytes of a row,): the elements in C order.
        rows: number of rows, at least 1.
        dtype: name of the element type without its library, e.g. `bfloat16`.
        shape: shape of one row.

    Returns:
        uint64, shape (rows,); shape (0,) if rows have no bytes.
    """
    size = len(data) // rows
    if size > ROW_BYTES:
        length = ROW_BYTES // BLOCKS
        whole_RN = data.reshape(rows, size)
        starts = [(size - length) * block // (BLOCKS - 1) for block in range(BLOCKS)]
        pieces = [whole_RN[:, start : start + length] for start in starts]
        data = np.concatenate(pieces, axis=1).reshape(-1)
        size = ROW_BYTES
    return _each(data, size, seed_of(dtype, tuple(shape)))


def _each(data: npt.NDArray[np.uint8], size: int, seed: int) -> Digests:
    """Return the digest of every piece of a given size; empty if the size is 0."""
    found_R = np.empty(len(data) // size if size else 0, np.uint64)
    if size and built.arrays is not None:
        built.arrays.row_digests(data, size, seed, found_R)
        return found_R
    held, hashed = data.data, xxhash.xxh3_64_intdigest
    for row in range(len(found_R)):
        found_R[row] = hashed(held[row * size : (row + 1) * size], seed)
    return found_R


def row_bits(array: npt.NDArray[Any], columns: int = COLUMNS) -> npt.NDArray[Any]:
    """Return the bits of selected elements of every row as integers, shape (rows, columns).

    Args:
        array: array of any real type, shape (rows, ...).
        columns: maximum number of elements of a row, evenly spread.
    """
    rows = array.shape[0] if array.ndim else 1
    whole_RC = array.reshape(rows, array.size // max(1, rows))
    few_RC = np.ascontiguousarray(whole_RC[:, :: max(1, -(-whole_RC.shape[1] // columns))])
    return few_RC.view(f"{'u' if array.itemsize == 1 else 'i'}{min(array.itemsize, 8)}")


def digest_bits(bits_RC: npt.NDArray[Any]) -> Digests:
    """Return a 64-bit digest of every row: a sum of products with odd numbers, modulo 2^64."""
    wide_RC = bits_RC.astype(np.uint64)
    # The low 52 bits of 1.0 and of other short float64 numbers are 0. A product with such a number
    # keeps only 12 bits of the odd number, so rows of zeros and ones could be equal by chance.
    wide_RC ^= wide_RC >> np.uint64(32)
    digest_R: Digests = (wide_RC * _odd_numbers(bits_RC.shape[1])).sum(axis=1)
    return digest_R


@functools.cache
def _odd_numbers(count: int) -> Digests:
    drawn: Digests = np.random.default_rng(20240101).integers(0, 2**64, count, dtype=np.uint64)
    odd: Digests = drawn | np.uint64(1)
    return odd


@functools.lru_cache(maxsize=1024)
def seed_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the digest seed of an element type and a shape."""
    return xxhash.xxh3_64_intdigest(f"{dtype}{shape}".encode())
