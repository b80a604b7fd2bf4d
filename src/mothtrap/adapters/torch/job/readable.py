"""Tests for tensors whose values can be read here and now."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch._functorch import pyfunctorch

from mothtrap.statistics.torch.in_place import as_array, lies_in_place
from mothtrap.statistics.torch.plain import has_own_dispatch, local

SPARSE = (
    torch.sparse_coo,
    torch.sparse_csr,
    torch.sparse_csc,
    torch.sparse_bsr,
    torch.sparse_bsc,
)


def shows_values() -> bool:
    """Return whether tensors have values here: nothing is traced or transformed."""
    # Inside torch.func, a tensor may represent a whole batch. Private API, covered by a test.
    return (
        torch._C._functorch.peek_interpreter_stack() is None and not torch.compiler.is_compiling()
    )


def is_readable(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has values: it is not traced, batched, fake or captured.

    A tensor that only a user-defined `__torch_dispatch__` can read counts as unreadable.
    """
    return (
        tensor.device.type != "meta"
        and type(tensor).__name__ not in ("FakeTensor", "FunctionalTensor")
        and not has_own_dispatch(tensor)
        and shows_values()
        and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def may_be_nonzero(tensor: torch.Tensor) -> bool:
    """Return whether a tensor may be nonzero or cannot be read, on this worker."""
    return has_own_dispatch(tensor) or bool(local(tensor).any())


def has_own_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor can be stored for later: the quick part of `is_plain`."""
    return (
        type(tensor) is torch.Tensor
        and not tensor.is_nested
        and tensor.layout is torch.strided
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a numeric array that every operation accepts."""
    return (
        type(tensor) in (torch.Tensor, nn.Parameter)
        and not tensor.is_nested
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and is_readable(tensor)
    )


def is_countable(tensor: torch.Tensor) -> bool:
    """Return whether statistics and digests accept a tensor: it is plain, or sparse."""
    return is_plain(tensor) or (
        type(tensor) in (torch.Tensor, nn.Parameter)
        and tensor.layout in SPARSE
        and is_readable(tensor)
    )


def plain_array(value: Any) -> npt.NDArray[Any] | None:
    """Return the elements of a tensor or array that lie in order on the host; None for others."""
    if type(value) is np.ndarray:
        return value if value.flags.c_contiguous and value.dtype.kind in "fiub" else None
    if type(value) is not torch.Tensor or not (is_plain(value) and lies_in_place(value)):
        return None
    unread = value.is_complex() or value.dtype is torch.bfloat16
    return None if unread else as_array(value.detach())


def kind_of_unread(tensor: torch.Tensor) -> str | None:
    """Return the kind of a skipped tensor, such as `nested`; None for other tensors."""
    if tensor.device.type == "meta":
        return "meta"
    if tensor.is_nested:
        return "nested"
    if tensor.layout in SPARSE:
        return "sparse"
    if tensor.layout is torch.strided and tensor.is_quantized:
        return "quantized"
    if has_own_dispatch(tensor):
        return type(tensor).__name__
    return None


def outside_transforms() -> AbstractContextManager[Any]:
    """Make tensors readable even inside a function transformed by `torch.func`."""
    # Both functions of torch are private, and covered by a test.
    if torch._C._functorch.peek_interpreter_stack() is None:
        return nullcontext()
    found: AbstractContextManager[Any] = pyfunctorch.temporarily_clear_interpreter_stack()
    return found
