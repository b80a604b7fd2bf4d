"""Description of the inputs of an operation that produced NaN or infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from mothtrap.adapters.torch.source.names import NOTHING
from mothtrap.statistics.torch.dtypes import type_name

MAX_NAME = 60
"""Maximum number of shown characters of an expression."""
_HALF = (torch.float16, torch.bfloat16)


def in_words(operation: str, operands: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """Return names and ranges of operands, such as `input from 0 to 3.2`.

    Args:
        operation: name such as `torch.std`.
        operands: tensors and arrays by their source text; `NOTHING` for a value that no longer
            exists.
    """
    if any(value is NOTHING for _, value in operands):
        return tuple(f"{name}: 1 value" for name, _ in operands)
    values = [(name, torch.as_tensor(value).detach()) for name, value in operands]
    if operation.endswith("ctc_loss") and len(values) == 4:
        lengths = ctc_lengths(values[2][1], values[3][1])
        if lengths:
            return (lengths,)
    return tuple(words_of(name, value) for name, value in values)


def words_of(name: str, tensor: torch.Tensor) -> str:
    """Return name and range of one operand."""
    name = "input" if name == "self" else name
    name = name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…"
    if not tensor.numel() or tensor.is_complex():
        return f"{name} of shape {tuple(tensor.shape)}"
    if tensor.dtype is torch.bool:
        return f"{name} of shape {tuple(tensor.shape)}"
    if tensor.numel() == 1:
        return f"{name}: 1 value, {float(tensor):.4g}"
    low, high = (float(value) for value in tensor.aminmax())
    return f"{name} from {low:.4g} to {high:.4g}{_of_note(tensor, low, high)}"


def _of_note(tensor: torch.Tensor, low: float, high: float) -> str:
    """Return facts that a range does not show: zeros at its end, rows of -inf, a single row."""
    if low == -math.inf and tensor.ndim > 1:
        rows = (tensor == -math.inf).all(dim=-1)
        if bool(rows.any()):
            return f", {int(rows.sum()):,} of {rows.numel():,} rows are all -inf"
    if low == 0 or high == 0:
        zeros = tensor.numel() - int(tensor.count_nonzero())
        return f", {zeros:,} of {tensor.numel():,} values are 0"
    return f", shape {tuple(tensor.shape)}" if tensor.ndim and tensor.shape[0] == 1 else ""


def ctc_lengths(frames: Any, labels: Any) -> str:
    """Return the rows of a CTC loss with fewer frames than labels; empty if there are none.

    Args:
        frames: number of frames in each output row of the network.
        labels: labels of each row.
    """
    given = torch.as_tensor(frames).reshape(-1).tolist()
    wanted = torch.as_tensor(labels).reshape(-1).tolist()
    if len(given) != len(wanted):
        return ""
    short = [row for row, (has, needs) in enumerate(zip(given, wanted, strict=True)) if has < needs]
    if not short:
        return ""
    first = short[0]
    more = f", and {len(short) - 1} more rows" if len(short) > 1 else ""
    return f"row {first} has {given[first]:,} frames for {wanted[first]:,} labels{more}"


def overflowed_type(operands: Iterable[Any], result: Any = None) -> str:
    """Return the 16-bit type in which finite operands produced infinity; empty if none."""
    found = [value for value in operands if isinstance(value, torch.Tensor)]
    made = [result] if isinstance(result, torch.Tensor) else []
    types = {value.dtype for value in (*made, *found) if value.is_floating_point()}
    half = types & set(_HALF)
    if not half or any(not bool(torch.isfinite(v.detach()).all()) for v in found):
        return ""
    if made and bool(torch.isnan(made[0].detach()).all()):
        return ""
    return type_name(half.pop())
