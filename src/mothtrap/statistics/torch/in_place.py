"""The bytes of a tensor where they lie: nothing is copied, and no operation of torch runs."""

from __future__ import annotations

import ctypes
import functools
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

Bytes = npt.NDArray[np.uint8]

GLIMPSES: Final = 32
"""Places of a tensor that are looked at to see whether it was written to. Chosen by hand."""
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)


def bytes_in_place(tensor: torch.Tensor) -> Bytes | None:
    """Return the bytes of a tensor in C order, None where they do not lie so on the host.

    They are those of the tensor itself, for as long as it is there. Past the dispatcher: a mode
    of the user's, which counts or prints operations, sees none.
    """
    if type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not torch.strided:
        return None
    size = tensor.nbytes
    if not size or not tensor.is_contiguous() or tensor.is_quantized:
        return None
    if tensor.is_conj() or tensor.is_neg():
        return None
    address = tensor.data_ptr()
    if not address:
        return None
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)


@functools.cache
def type_name(dtype: torch.dtype) -> str:
    """Return the name of an element type without its library, e.g. `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def glimpse(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a few elements, evenly spread and the last one among them.

    Empty where the elements do not lie in C order on the host. What writes to a whole tensor
    past the framework shows here, where no version tells of it.
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
