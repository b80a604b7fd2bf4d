"""Where values stopped being finite: looked for only in a step that went wrong."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import nn

from mothtrap.adapters.torch.forwards import Held
from mothtrap.adapters.torch.naming import NameBook
from mothtrap.core.observations import NonfiniteModule
from mothtrap.statistics import torch as arithmetic


def first_nonfinite(
    outputs: Sequence[Held], inputs: Sequence[object], book: NameBook, step: int
) -> NonfiniteModule | None:
    """Find the first module whose output was not finite; None when inputs were not either.

    Args:
        outputs: modules with their outputs, in order of completion.
        inputs: what the root was called with; NaN there means that no module is to blame.
        book: names of modules.
        step: the step that went wrong.
    """
    if any(_nan(value) for value in inputs):
        return None
    all_there = True
    for module, held in outputs:
        tensor = held() if isinstance(held, weakref.ref) else held
        if tensor is None:
            all_there = False
            continue
        nan, inf = arithmetic.nonfinite_counts(tensor)
        if nan or inf:
            return NonfiniteModule(
                step=step,
                module=book.module_name(module),
                module_type=type(module).__name__,
                nan=nan,
                inf=inf,
                inputs_known=all_there,
                parameters_finite=_parameters_finite(module),
                location=book.location(module),
            )
    return None


def _nan(value: object) -> bool:
    return isinstance(value, torch.Tensor) and arithmetic.nonfinite_counts(value)[0] > 0


def _parameters_finite(module: nn.Module) -> bool:
    return not any(any(arithmetic.nonfinite_counts(p)) for p in module.parameters())
