"""Conversion of any tensor to a flat dense tensor, and transfer of flat tensors to the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from mothtrap.statistics.summary import Floats
from mothtrap.statistics.torch.in_place import as_array

SERIAL_SIZE: Final = 15 * 2048
"""Elements per block on a CPU. From 32768 elements on (2.13), torch splits an operation over
threads and waits for all of them. If the cores have other work, each wait takes 0.1 to 3 ms
(measured).
"""

_SPARSE_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without autograd; for a distributed tensor, this worker's shard.

    A tensor that `has_own_dispatch` is returned unchanged.
    """
    if has_own_dispatch(tensor):
        return tensor
    to_local = getattr(tensor, "to_local", None)
    return (to_local() if to_local is not None else tensor).detach()


def has_own_dispatch(tensor: torch.Tensor) -> bool:
    """Return whether operations on a tensor call a user-defined `__torch_dispatch__`.

    It may count calls or draw random numbers, so such a tensor is not read. PyTorch's own types
    only compute.
    """
    kind = type(tensor)
    if kind.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl:  # private API; tested
        return False
    return not kind.__module__.startswith("torch.")


def flat_elements(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the stored elements of a tensor, and the number of implicit zeros.

    Args:
        tensor: any layout and dtype that torch can convert to a real number.

    Returns:
        A strided tensor of shape (N,), elements in any order, as a view if possible; complex
        elements as real and imaginary parts. Also the number of zeros that a sparse layout omits.
    """
    values, implicit_zeros = local(tensor), 0
    if values.layout is not torch.strided:
        values, implicit_zeros = _stored(values)
    if values.is_quantized:
        values = values.dequantize()
    if values.is_complex():
        values, implicit_zeros = torch.view_as_real(values.resolve_conj()), 2 * implicit_zeros
    values = values.resolve_neg()
    if not values.is_contiguous():
        # In memory order, a transposed or channels-last tensor needs no copy.
        values = values.permute(np.argsort([-stride for stride in values.stride()]).tolist())
    return values.reshape(-1), implicit_zeros


def _stored(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    if tensor.layout is torch.sparse_coo:
        values = tensor.coalesce().values()
    elif tensor.layout in _SPARSE_COMPRESSED:
        values = tensor.values()
    elif tensor.layout is torch.jagged:
        return tensor.values(), 0
    else:
        return tensor.to_dense(), 0
    return values, tensor.numel() - values.numel()


def to_host(parts: Sequence[torch.Tensor]) -> list[Floats]:
    """Copy real tensors of shape (N,) to the host, once per device.

    Returns:
        float64 arrays of the same lengths and order.
    """
    by_device: dict[torch.device, dict[torch.dtype, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for index, part in enumerate(parts):
        by_device[part.device][part.dtype].append(index)
    arrays: list[Floats] = [np.empty(0)] * len(parts)
    for device, by_dtype in by_device.items():
        # Metal has no float64, so integers beyond 2^24 lose their last digits.
        wide = torch.float32 if device.type == "mps" else torch.float64
        joined = [torch.cat([parts[i] for i in order]).to(wide) for order in by_dtype.values()]
        host = as_array((torch.cat(joined) if len(joined) > 1 else joined[0]).cpu())
        at = 0
        for index in (i for order in by_dtype.values() for i in order):
            end = at + parts[index].numel()
            arrays[index] = host[at:end].astype(np.float64, copy=False)
            at = end
    return arrays
