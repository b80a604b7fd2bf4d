"""Digest of each row of a tensor: equal if the rows' bits are equal."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.digest import COLUMNS, Digests, digest_bits, digest_rows
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.in_place import as_array, bytes_in_place
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import bytes_of, describe

MAX_ROWS: Final = 512
"""Maximum number of rows of a batch that are digested individually; chosen by hand: 2 MB at most.
"""
MAX_MOVED: Final = 1 << 20
"""Maximum number of bytes that are first copied into C order."""

_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)
_INTEGERS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def row_digests(tensor: torch.Tensor, columns: int = COLUMNS) -> Digests:
    """Return a 64-bit digest for every row, equal for bit-identical rows.

    Args:
        tensor: tensor of any real type, shape (rows, ...), strided, or a coalesced sparse matrix;
            copied to the host if necessary.
        columns: maximum number of elements of a row that are read.

    Returns:
        uint64, shape (rows,). Two rows that differ in the elements read get different numbers,
        except for one pair in 2^63.
    """
    if tensor.layout is torch.sparse_coo:
        return _sparse_digests(tensor)
    return digest_bits(_bits(tensor, columns))


def _sparse_digests(tensor: torch.Tensor) -> Digests:
    """Return the digest of every row of a coalesced matrix: the sum of its entries' digests."""
    with torch.no_grad():
        index_2N, value_N = tensor._indices(), tensor._values()
        bits_N = as_array(value_N.contiguous().view(_INTEGERS[value_N.element_size()]).cpu())
        row_N, column_N = as_array(index_2N.cpu())
    entries_N2 = np.stack([column_N.astype(np.int64), bits_N.astype(np.int64)], axis=1)
    sum_R = np.zeros(tensor.shape[0], np.uint64)
    digest_N = digest_bits(entries_N2)
    # otherwise sums would hide which row has which entry
    digest_N = (digest_N ^ (digest_N >> np.uint64(31))) * _MIXER
    np.add.at(sum_R, row_N, digest_N ^ (digest_N >> np.uint64(29)))
    return sum_R


def _bits(tensor: torch.Tensor, columns: int) -> npt.NDArray[Any]:
    """Return the bits of some elements of every row, as integers."""
    data, size = bytes_in_place(tensor), tensor.element_size()
    if data is not None and size in _INTEGERS:
        rows = tensor.shape[0] if tensor.ndim else 1
        whole_RC = data.view(f"{'u' if size == 1 else 'i'}{size}").reshape(rows, -1)
        return whole_RC[:, :: max(1, -(-whole_RC.shape[1] // columns))]
    with torch.no_grad():
        values = local(tensor)
        rows = values.shape[0] if values.ndim else 1
        values = values.reshape(rows, values.numel() // max(1, rows))
        if values.shape[1] > columns:
            values = values[:, :: -(-values.shape[1] // columns)]
        return as_array(values.contiguous().view(_INTEGERS[values.element_size()]).cpu())


def sample_digests(tensor: torch.Tensor) -> list[int]:
    """Return the digest (`digest_rows`) of each of the first rows, as a signed number.

    Args:
        tensor: strided, on the host, shape (rows, ...), not empty.

    Returns:
        One digest per inspected row; empty if the rows are large and would have to be copied.
    """
    data = bytes_in_place(tensor)
    if data is None:
        return _moved(tensor)
    shape = tuple(tensor.shape)
    rows = min(shape[0], MAX_ROWS)
    few = data[: data.size // shape[0] * rows]
    return _signed(digest_rows(few, rows, type_name(tensor.dtype), shape[1:]))


def _signed(digest_R: Digests) -> list[int]:
    signed: list[int] = digest_R.view(np.int64).tolist()
    return signed


def _moved(tensor: torch.Tensor) -> list[int]:
    """Return digests of rows that must first be copied into C order."""
    with torch.no_grad():
        few = local(tensor)[:MAX_ROWS]
        size = few.numel() * few.element_size()
        if few.layout is not torch.strided or not (few.is_contiguous() or size <= MAX_MOVED):
            return []
        dtype, shape, _ = describe(few)
        return _signed(digest_rows(bytes_of(few), len(few), dtype, shape[1:]))
