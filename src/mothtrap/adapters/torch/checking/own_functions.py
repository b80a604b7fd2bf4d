"""Backward passes written by the user: the `autograd.Function`s that a call applies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import Function

from mothtrap.adapters.torch.checking import trees

LEAST_VALUES = 64
"""Minimum number of output values for detecting that only a few are distinct; chosen by hand."""
DISTINCT_SHARE = 0.25
"""Share of distinct values below which an output is rounded or a step function; chosen by hand."""


@contextmanager
def noted_functions() -> Iterator[dict[str, bool]]:
    """Record the functions applied inside a block.

    Yields:
        Maps each function name to whether its output has only a few different values: then its
        forward pass has no derivative, and its backward pass estimates one.
    """
    found: dict[str, bool] = {}
    original: Any = vars(Function)["apply"]

    def apply(kind: type[Function], *args: Any, **kwargs: Any) -> Any:
        result = original.__func__(kind, *args, **kwargs)
        few = [_has_few_values(one) for one in trees.floating(result)]
        name = kind.__name__
        found[name] = found.get(name, True) and bool(few) and all(few)
        return result

    setattr(Function, "apply", classmethod(apply))  # noqa: B010  # for the type checker
    try:
        yield found
    finally:
        setattr(Function, "apply", original)  # noqa: B010


def _has_few_values(tensor: torch.Tensor) -> bool:
    count = tensor.numel()
    return count >= LEAST_VALUES and len(torch.unique(tensor.detach())) < DISTINCT_SHARE * count
