"""Detection of bad values (non-finite, or beyond a limit), and descriptions of tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.statistics.torch.dtypes import type_name

ROWS = 64
"""Maximum number of named bad rows per tensor. Chosen by hand."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Criterion for bad values.

    Attributes:
        limit: values with a larger magnitude are bad, and so are values that are not finite.
    """

    limit: float = math.inf

    def mask(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a mask of the bad elements; bool, of the tensor's shape."""
        wide = _computable(tensor.detach())
        bad = ~torch.isfinite(wide)
        if math.isfinite(self.limit):
            bad |= wide.abs() > self.limit
        return bad

    def is_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor contains a bad value."""
        return has_values(tensor) and bool(self.mask(tensor).any())

    def rows(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Return positions on the first axis with bad values, at most `ROWS`."""
        if not tensor.dim():
            return ()
        bad = self.mask(tensor).flatten(1).any(1) if tensor.dim() > 1 else self.mask(tensor)
        return tuple(torch.nonzero(bad).flatten()[:ROWS].tolist())

    def first(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Return the position of the first bad value."""
        return tuple(torch.nonzero(self.mask(tensor))[0].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """Description of a tensor's values.

    Attributes:
        name: name of the argument, or its expression in the user's line.
        dtype: dtype without `torch.`.
        shape: shape of the tensor.
        minimum, maximum: extremes of the finite values; None if there are none.
        zeros, nan, inf: counts.
        at_bad: its value at the first bad position of the result, if known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    minimum: float | None
    maximum: float | None
    zeros: int
    nan: int
    inf: int
    at_bad: float | None = None

    def words(self) -> str:
        """Return a one-line description for readers."""
        extent = "x".join(map(str, self.shape)) or "scalar"
        text = f"{self.name}: {self.dtype} {extent}"
        if self.minimum is not None:
            text += f", from {self.minimum:.4g} to {self.maximum:.4g}"
        counts = ((self.zeros, "zeros"), (self.nan, "NaN"), (self.inf, "infinite"))
        text += "".join(f", {count} {what}" for count, what in counts if count)
        return text if self.at_bad is None else f"{text}; {self.at_bad:g} at the first bad place"


def facts_of(
    name: str, tensor: torch.Tensor, result: torch.Tensor | None = None, bad: Bad | None = None
) -> TensorFacts:
    """Describe an input, and its value at the first bad element of the result."""
    wide = _computable(tensor.detach())
    magnitude = wide.abs() if wide.is_complex() else wide
    finite = magnitude[torch.isfinite(magnitude)]
    return TensorFacts(
        name=name,
        dtype=type_name(tensor.dtype),
        shape=tuple(tensor.shape),
        minimum=float(finite.min()) if finite.numel() else None,
        maximum=float(finite.max()) if finite.numel() else None,
        zeros=int((wide == 0).sum()),
        nan=int(torch.isnan(wide).sum()),
        inf=int(torch.isinf(wide).sum()),
        at_bad=_at(magnitude, result, bad) if result is not None and bad is not None else None,
    )


def _at(tensor: torch.Tensor, result: torch.Tensor, bad: Bad) -> float | None:
    try:
        return float(tensor.broadcast_to(result.shape)[bad.first(result)])
    except (RuntimeError, IndexError):
        return None


def has_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has values that may be bad."""
    return (
        (tensor.is_floating_point() or tensor.is_complex())
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.is_quantized
        and is_readable(tensor)
        and tensor.numel() > 0
    )


def _computable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in a dtype that supports comparison; 8-bit floats do not."""
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor
