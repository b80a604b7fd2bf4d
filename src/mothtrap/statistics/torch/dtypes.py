"""Names of torch's element types, as in `statistics.dtypes`."""

from __future__ import annotations

import functools

import torch


@functools.cache
def type_name(dtype: torch.dtype) -> str:
    """Return the name of an element type without its library, e.g. `bfloat16`."""
    return str(dtype).removeprefix("torch.")
