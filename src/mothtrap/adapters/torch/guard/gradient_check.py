"""Check of gradients for the guard, if capture has not already read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from mothtrap.adapters.torch.job.distributed import is_distributed
from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.capture.gradient_look import GradientLook
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats

_LOOKED_AT = [COLUMN["nan"], COLUMN["inf"], COLUMN["l2"]]


def look_at(gradients: Iterable[torch.Tensor], scale: torch.Tensor | None = None) -> GradientLook:
    """Return the gradients' norm and finiteness, with one pass and at most one transfer.

    Args:
        gradients: gradients of any layout; for a gradient that is sharded over workers, this
            worker's part.
        scale: factor applied by a gradient scaler.
    """
    values = [part for gradient in gradients if (part := _values(gradient)) is not None]
    on_cpu = [v for v in values if v.device.type == "cpu"]
    elsewhere = [v for v in values if v.device.type != "cpu"]
    rows_TF = np.concatenate([arithmetic.norms(on_cpu), _device_rows(elsewhere)])
    if scale is not None:
        rows_TF[:, COLUMN["l2"]] /= float(scale)
    return GradientLook(rows_TF)


def nonfinite_among(gradients: Sequence[torch.Tensor | None]) -> list[int]:
    """Return the positions of gradients with NaN or infinite values."""
    with torch.no_grad():
        parts = [None if gradient is None else _values(gradient) for gradient in gradients]
        return [
            place
            for place, part in enumerate(parts)
            if part is not None and not bool(torch.isfinite(part).all())
        ]


def _values(gradient: torch.Tensor) -> torch.Tensor | None:
    """Return the stored values as a plain tensor; None if they cannot be read here."""
    part: Any = gradient.detach()
    if is_distributed(part):
        part = part.to_local()
    if part.is_sparse:
        part = part._values()
    own: torch.Tensor = part
    return own if own.numel() and is_readable(own) else None


def _device_rows(values: Sequence[torch.Tensor]) -> Floats:
    """Return rows whose sum shows whether all values are finite; single rows do not."""
    rows_TF = np.full((len(values), WIDTH), np.nan)
    if values:
        rows_TF[:, _LOOKED_AT] = 0.0
        rows_TF[0, COLUMN["l2"]] = norm = _device_norm(values)
        if not math.isfinite(norm):
            rows_TF[0, COLUMN["nan"]] = len(nonfinite_among(values))
    return rows_TF


def _device_norm(values: Sequence[torch.Tensor]) -> float:
    """Return the norm of all gradients; not finite if a value, or the sum of squares, is not."""
    with torch.no_grad():
        wide = [v for v in values if v.dtype in (torch.float64, torch.complex128)]
        narrow = [v for v in values if v.dtype not in (torch.float64, torch.complex128)]
        # No public function returns the norms of a list of tensors; torch's clip_grad_norm_ uses
        # this one.
        norms = list(torch._foreach_norm(wide, 2)) if wide else []
        for complex_values in (False, True):
            alike = [v for v in narrow if v.is_complex() is complex_values]
            dtype = torch.complex64 if complex_values else torch.float32
            if alike:
                norms += torch._foreach_norm(alike, 2, dtype=dtype)
        device = norms[0].device
        return float(torch.stack([n.to(device).double() for n in norms]).norm())
