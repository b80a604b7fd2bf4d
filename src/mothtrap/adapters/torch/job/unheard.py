"""Hide the operations of hooks from the user's modes and tensor types.

These are function and dispatch modes (a counter of operations, `torch.set_default_device`) and
tensor types with a `__torch_function__`. The private names of PyTorch that this needs are used only
here, and are covered by a test.
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
    torch._C.DisableTorchFunction,  # implemented in C and entered in 0.1 µs, so it is always used
    _outside_modes,
    torch._C._EnableTorchFunction,
)
