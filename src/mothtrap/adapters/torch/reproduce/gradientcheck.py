"""A look at gradients for the guard alone, where capture has not just taken one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from mothtrap.adapters.torch.distributed import is_distributed
from mothtrap.adapters.torch.readable import is_readable
from mothtrap.capture.gradientlook import GradientLook
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.summary import COLUMN


def look_at(gradients: Iterable[torch.Tensor], scale: torch.Tensor | None = None) -> GradientLook:
    """Whether gradients are finite, and their norm: one pass and, on a device, one transfer.

    Args:
        gradients: of any layout; of one that is spread over workers the part that is here.
        scale: what a gradient scaler has multiplied them by.
    """
    values = [part for gradient in gradients if (part := _values(gradient)) is not None]
    on_cpu = [v for v in values if v.device.type == "cpu"]
    elsewhere = [v for v in values if v.device.type != "cpu"]
    square, nonfinite = 0.0, False
    if on_cpu:
        rows_TF = arithmetic.norms(on_cpu)
        nonfinite = bool((rows_TF[:, [COLUMN["nan"], COLUMN["inf"]]] > 0).any())
        l2_T = rows_TF[:, COLUMN["l2"]]
        with np.errstate(all="ignore"):
            square += float(np.dot(l2_T, l2_T))
    if elsewhere:
        norm = _device_norm(elsewhere)
        square += norm * norm
        nonfinite = nonfinite or (not math.isfinite(norm) and bool(nonfinite_among(elsewhere)))
    norm = math.sqrt(square) if square >= 0 else math.nan
    if scale is not None:
        norm /= float(scale)
    return GradientLook(tensors=len(values), nonfinite=nonfinite, norm=norm)


def nonfinite_among(gradients: Sequence[torch.Tensor | None]) -> list[int]:
    """Places of the gradients that hold a NaN or an infinite value."""
    with torch.no_grad():
        parts = [None if gradient is None else _values(gradient) for gradient in gradients]
        return [
            place
            for place, part in enumerate(parts)
            if part is not None and not bool(torch.isfinite(part).all())
        ]


def _values(gradient: torch.Tensor) -> torch.Tensor | None:
    """The stored values as a plain tensor; None where they cannot be read here and now."""
    part = gradient.detach()
    if is_distributed(part):
        part = part.to_local()  # type: ignore[operator]  # of a DTensor
    if part.is_sparse:
        part = part._values()
    return part if part.numel() and is_readable(part) else None


def _device_norm(values: Sequence[torch.Tensor]) -> float:
    """The norm of all; not finite where a value, or the sum of the squares, is not."""
    with torch.no_grad():
        wide = [v for v in values if v.dtype in (torch.float64, torch.complex128)]
        narrow = [v for v in values if v.dtype not in (torch.float64, torch.complex128)]
        # No public function gives the norms of a list; torch's clip_grad_norm_ uses it.
        norms = list(torch._foreach_norm(wide, 2)) if wide else []
        for complex_values in (False, True):
            alike = [v for v in narrow if v.is_complex() is complex_values]
            dtype = torch.complex64 if complex_values else torch.float32
            if alike:
                norms += torch._foreach_norm(alike, 2, dtype=dtype)
        device = norms[0].device
        return float(torch.stack([n.to(device).double() for n in norms]).norm())
