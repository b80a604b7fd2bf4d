"""Hides the operations of hooks from modes and tensor types of the user.

These are function and dispatch modes (a counter of operations, `torch.set_default_device`) and
tensor types with a `__torch_function__`. The private names of PyTorch that this needs are used only
here; a test pins them.
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
