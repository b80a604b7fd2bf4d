"""Hides the operations of hooks from what a user has put around those of PyTorch.

That is a function or dispatch mode (a counter of operations, `torch.set_default_device`) or a
tensor type with a `__torch_function__`. Private names of PyTorch stand here alone; a test pins
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import _disable_current_modes

from mothtrap.capture.unheard import Unheard

function_modes = torch._C._len_torch_function_stack
"""Returns how many function modes this thread has entered."""
dispatch_modes = torch._C._len_torch_dispatch_stack
"""Returns how many dispatch modes this thread has entered."""


@contextmanager
def _outside_modes() -> Iterator[None]:
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


UNHEARD = Unheard(
    dispatch_modes,
    torch._C.DisableTorchFunction,  # a class of C: entered in 0.1 µs, so always
    _outside_modes,
    torch._C._EnableTorchFunction,
)
