"""Bytes of a tensor, and their digest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics import built
from mothtrap.statistics.digest import Digests, digest_bytes
from mothtrap.statistics.dtypes import array_of
from mothtrap.statistics.numpy import move_bytes
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.in_place import as_array, lies_in_place
from mothtrap.statistics.torch.plain import local


def describe(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], int]:
    """Return the element type, shape and number of bytes of a tensor as dense data.

    Args:
        tensor: tensor of any layout; for a distributed tensor, this worker's shard.
    """
    values = tensor if type(tensor) in (torch.Tensor, torch.nn.Parameter) else local(tensor)
    dtype = torch.float32 if values.is_quantized else values.dtype
    shape = tuple(values.shape)
    return type_name(dtype), shape, math.prod(shape) * dtype.itemsize


def copy_bytes(tensor: torch.Tensor, out_N: npt.NDArray[np.uint8]) -> None:
    """Write a tensor in C order, little-endian; waits for an accelerator's tensor.

    Args:
        tensor: as for `describe`.
        out_N: uint8, with the size that `describe` returns.
    """
    if built.arrays is not None and lies_in_place(tensor):
        compiled.copy(tensor, out_N)
        return
    with torch.no_grad():
        move_bytes(bytes_of(tensor), out_N)


def gather_bytes(
    tensors: Sequence[torch.Tensor], begins: Sequence[int], out_N: npt.NDArray[np.uint8]
) -> None:
    """Write several tensors like `copy_bytes`, each from an offset in the same memory.

    Args:
        tensors: as for `describe`.
        begins: position of the first byte of each array.
        out_N: uint8, large enough.
    """
    pieces: list[tuple[int, int, int]] = []
    for tensor, begin in zip(tensors, begins, strict=True):
        if built.arrays is not None and lies_in_place(tensor):
            pieces.append((tensor.data_ptr(), tensor.nbytes, begin))
        elif size := describe(tensor)[2]:
            copy_bytes(tensor, out_N[begin : begin + size])
    if pieces:
        compiled.gather(np.array(pieces, np.int64), out_N)


def bytes_of(tensor: torch.Tensor) -> npt.NDArray[np.uint8]:
    """Return the bytes of a tensor in C order, as a view if possible, on the host."""
    values = local(tensor)
    if values.is_quantized:
        values = values.dequantize()
    if values.layout is not torch.strided:
        values = values.to_dense()
    values = values.resolve_conj().resolve_neg().cpu().contiguous()
    return as_array(values.reshape(-1).view(torch.uint8))


def digest(tensor: torch.Tensor) -> int:
    """Return the xxh3_64 of the elements in C order, seeded by type and shape.

    Equal to `statistics.numpy.digest` of an equal array. A sparse tensor counts as its dense
    equivalent. Copies an accelerator's tensor to the host.
    """
    with torch.no_grad():
        dtype, shape, _ = describe(tensor)
        return digest_bytes(bytes_of(tensor), dtype, shape)


def digests(tensors: Sequence[torch.Tensor]) -> Digests:
    """Return the digest of each tensor, uint64, shape (T,); see `digest`."""
    digest_T, known_T = compiled.digests(tensors)
    for index in np.flatnonzero(~known_T).tolist():
        digest_T[index] = digest(tensors[index])
    return digest_T


def to_numpy(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return the values as a dense NumPy array, as a view if possible.

    Args:
        tensor: as for `describe`; waits for an accelerator's tensor.
    """
    with torch.no_grad():
        dtype, shape, _ = describe(tensor)
        return array_of(bytes_of(tensor), dtype).reshape(shape)
