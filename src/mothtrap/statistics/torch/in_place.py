"""Access to the bytes of a tensor without a copy or an operation of torch."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.dtypes import NATIVE, dtype_of

Bytes = npt.NDArray[np.uint8]

GLIMPSES: Final = 32
"""Number of positions of a tensor that are inspected to detect writes. Chosen by hand."""
PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
"""Tensor types without custom behavior."""
_NUMPY: Final = {getattr(torch, name): dtype_of(name) for name in NATIVE}


def lies_in_place(tensor: torch.Tensor) -> bool:
    """Return whether the bytes of a non-empty tensor are in C order on the host.

    It bypasses the dispatcher, so a mode of the user that counts or prints operations is not
    called.
    """
    return (
        type(tensor) in PLAIN
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        # A sharded tensor releases its memory, but keeps its shape.
        and 0 < tensor.nbytes <= tensor.untyped_storage().nbytes()
    )


def bytes_in_place(tensor: torch.Tensor) -> Bytes | None:
    """Return the bytes of a tensor in C order; None if they are not stored so on the host.

    They are the tensor's own memory, and valid as long as the tensor exists.
    """
    # Repeats `lies_in_place`, because another call would cost too much here.
    if (
        type(tensor) not in PLAIN
        or not (tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous())
        or (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        or not 0 < tensor.nbytes <= tensor.untyped_storage().nbytes()
    ):
        return None
    there = (ctypes.c_uint8 * tensor.nbytes).from_address(tensor.data_ptr())
    return np.frombuffer(memoryview(there), np.uint8)


class _Memory:
    """Memory of a tensor in NumPy's array interface; keeps the tensor alive."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        dtype = _NUMPY[tensor.dtype]
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(tensor.shape),
            "typestr": dtype.str,
            "strides": tuple(stride * dtype.itemsize for stride in tensor.stride()),
            "data": (tensor.data_ptr(), False),
        }


def as_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a NumPy array over the memory of a tensor, as `Tensor.numpy` does.

    The storage of the tensor can still be resized: `Tensor.numpy` forbids that permanently, and a
    buffer or a batch that grows later would end the training. The array keeps the tensor alive, but
    not its memory, so read it before the user's code continues.

    Args:
        tensor: strided, on the host, and of a type that NumPy supports.

    Raises:
        KeyError: NumPy has no such type.
        ValueError: the tensor has no memory on the host.
    """
    if not tensor.is_cpu:
        raise ValueError(f"cannot read a tensor on {tensor.device} in place: copy it first")
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return np.asarray(_Memory(tensor))


def glimpse(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a few evenly spread elements, including the last one.

    Empty if the elements are not stored in C order on the host. This detects writes to a whole
    tensor that bypass the framework, which its version does not show.
    """
    data = bytes_in_place(tensor)
    if data is None:
        return b""
    size = tensor.element_size()
    if data.size <= GLIMPSES * size:
        return bytes(data)
    rows_NB = data.reshape(-1, size)
    few_NB: Bytes = rows_NB[:: -(-len(rows_NB) // GLIMPSES)]
    return bytes(few_NB.tobytes() + rows_NB[-1].tobytes())
