"""Find the first non-finite output of a forward pass; used only in a faulty step."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.job.retained_outputs import Retained
from mothtrap.core.facts.nonfinite import FiniteOutputs, NonfiniteModule
from mothtrap.statistics import torch as arithmetic

PASSING_ON = (
    *(nn.Linear, nn.modules.conv._ConvNd, nn.Identity, nn.Flatten, nn.ReLU, nn.LeakyReLU),
    *(nn.modules.dropout._DropoutNd, nn.modules.pooling._MaxPoolNd),
)
"""Modules that output NaN only where their input has NaN, and never infinity."""


def first_nonfinite(
    retained: Iterable[Retained], book: NameBook, step: int
) -> NonfiniteModule | FiniteOutputs | None:
    """Find the first module with a non-finite output, or report that all were finite.

    Args:
        retained: modules with their outputs in order of completion; an entry without a module is
            the input of a root, whose NaN means that no later module is the cause.
        book: names of modules.
        step: the faulty step.
    """
    all_there = True
    modules = 0
    for module, tensor in retained:
        if tensor is None:
            all_there = all_there and module is None
            continue
        nan, inf = arithmetic.nonfinite_counts(tensor)
        modules += module is not None
        if module is None:
            if nan:
                return None
        elif nan or inf:
            return NonfiniteModule(
                step=step,
                module=book.module_name(module),
                module_type=type(module).__name__,
                nan=nan,
                inf=inf,
                inputs_known=all_there,
                parameters_finite=_parameters_finite(module),
                given=nan > 0 and not inf and isinstance(module, PASSING_ON),
                location=book.location(module),
            )
    return FiniteOutputs(step=step, modules=modules) if modules and all_there else None


def _parameters_finite(module: nn.Module) -> bool:
    return not any(any(arithmetic.nonfinite_counts(p)) for p in module.parameters())
