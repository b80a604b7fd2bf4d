"""NaN and infinite values in data: their positions, and whether they are a mask."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.statistics import torch as arithmetic

MAX_ROWS = 16
"""Maximum number of rows that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spots:
    """Number of NaN and infinite elements of a tensor, and the rows that contain them."""

    nan: int
    inf: int
    rows: tuple[int, ...]
    row_count: int


def spots_in(tensor: torch.Tensor) -> Spots | None:
    """Find NaN and infinity in a tensor; None if there are none, or it is a mask.

    Waits for an accelerator once, and again if it finds something. A mask is a tensor without NaN
    whose finite values are all the same.
    """
    if not tensor.is_floating_point() or not is_plain(tensor) or not tensor.numel():
        return None
    if tensor.element_size() == 1:  # torch cannot sum 8-bit floats
        return None
    values = tensor.detach()
    if math.isfinite(float(values.sum())):  # by far the fastest test; a sum never hides a NaN
        return None
    nan, inf = arithmetic.nonfinite_counts(values)
    if not nan and not inf:
        return None
    finite = torch.isfinite(values)
    if not nan and _is_constant(values[finite]):
        return None
    rows = values.shape[0] if values.ndim else 1
    bad = (~finite).reshape(rows, -1).any(dim=1).nonzero().reshape(-1).tolist()
    return Spots(nan=nan, inf=inf, rows=tuple(bad[:MAX_ROWS]), row_count=len(bad))


def all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether no tensor contains NaN or infinity, including masks.

    Tensors that are not on the host, or that torch cannot sum, are not inspected; if there is one,
    the result is unknown.
    """
    return all(_is_finite(tensor) for tensor in tensors)


def _is_finite(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() and not tensor.is_complex():
        return True
    if not tensor.is_cpu or not is_plain(tensor) or tensor.element_size() == 1:
        return False
    values = tensor.detach()
    quick = values.is_floating_point() and math.isfinite(float(values.sum()))
    return quick or bool(torch.isfinite(values).all())


def _is_constant(values: torch.Tensor) -> bool:
    return values.numel() == 0 or bool((values == values[0]).all())
