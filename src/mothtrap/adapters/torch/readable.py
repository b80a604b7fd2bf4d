"""Whether a tensor holds values that can be read here and now."""

from __future__ import annotations

import torch
from torch import nn


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether the values of a tensor exist: it is not traced, batched, faked or captured."""
    return (
        tensor.device.type != "meta"
        and type(tensor).__name__ not in ("FakeTensor", "FunctionalTensor")
        # Private: inside torch.func a tensor may stand for a whole batch; a test pins it.
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch.compiler.is_compiling()
        and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def has_own_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be kept to be read later: the quick part of `is_plain`."""
    return (
        type(tensor) is torch.Tensor
        and not tensor.is_nested
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is readable, has a shape, and is of no subclass with ways of its own."""
    return (
        type(tensor) in (torch.Tensor, nn.Parameter)
        and not tensor.is_nested
        and is_readable(tensor)
    )
