"""Fast path for module calls of which only the output is needed.

It exists only in installations with a C compiler. Without it, every call is observed individually,
as in steps in which data of the calls is captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.unheard import dispatch_modes, function_modes
from mothtrap.statistics.torch.compiled import row_reader

try:
    from mothtrap.adapters.torch.forward import _passage as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]


def fast_path(report: Callable[[nn.Module, Any], None]) -> compiled.Passage | None:
    """Return a closed fast path; None if the compiled part is not installed.

    Args:
        report: called with a module and its output immediately if the output cannot be noted: it is
            not a plain tensor, or the fast path was closed before the module returned.
    """
    # Both functions of torch are private, and covered by a test. Inside a transformed function,
    # tensors have no values.
    return (
        compiled.Passage(
            report,
            torch.Tensor,
            torch.strided,
            torch.Tensor.detach,
            torch._C._functorch.peek_interpreter_stack,
            torch._C._get_tracing_state,
            row_reader(),
            (function_modes, dispatch_modes),
        )
        if compiled is not None
        else None
    )
