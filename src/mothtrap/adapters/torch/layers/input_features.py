"""Inputs of layers that no trained layer produced: statistics of the data by feature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.layers.weighted import is_convolution, squared_gain, weight_of
from mothtrap.core.window import Floats

MAX_ROWS = 512
MAX_VALUES = 1 << 18
"""Approximate number of inspected values of a batch; chosen by hand: well under a millisecond."""
MAX_FEATURES = 256
"""Maximum number of features that are listed individually."""
MAX_CORRELATED = 128
"""Maximum number of features whose correlations are computed."""
MIN_CORRELATED_ROWS = 16


def rows_of(values: torch.Tensor, module: nn.Module) -> torch.Tensor | None:
    """Return a batch as float (rows, features); None if the layer takes a row without a batch."""
    if is_convolution(module):
        if values.ndim < 3:
            return None
        values = values.movedim(1, -1)
    elif values.ndim < 2:
        return None
    features = values.shape[-1]
    if not values.numel():
        return None
    rows = max(1, min(MAX_ROWS, MAX_VALUES // features))
    # Rows of different examples are more informative than neighbors in one.
    per_example = max(1, values[0].numel() // features)
    examples = max(1, min(len(values), rows // per_example + 1))
    flat = values.detach()[:examples].reshape(-1, features)
    return flat[:: max(1, len(flat) // rows)].float()


def look(
    module: nn.Module, values: torch.Tensor
) -> tuple[torch.Tensor, Callable[[Floats], dict[str, Any] | None]] | None:
    """Reduce input data to statistics.

    Args:
        module: a weighted layer.
        values: input values, float.

    Returns:
        A tensor, shape (N,), and a function that converts its numbers to fields of `DataTaken`
        (None for data that are not finite); None if there are no rows.
    """
    weight, rows = weight_of(module), rows_of(values, module)
    if weight is None or rows is None:
        return None
    count, features = rows.shape
    zero = rows == 0
    by_feature = 0 < features <= MAX_FEATURES
    mean = rows.mean(dim=0)
    variance = (rows - mean).square().mean(dim=0)
    parts = [
        torch.stack([rows.mean(), rows.std(correction=0), rows.amin(), rows.amax()]),
        zero.float().mean().reshape(1),
        squared_gain(weight, type(module).__name__).reshape(1),
    ]
    if by_feature:
        ties = rows == rows.median(dim=0).values
        parts += [mean, variance.sqrt(), ties.float().mean(dim=0)]
    correlated = by_feature and 2 <= features <= MAX_CORRELATED and count >= MIN_CORRELATED_ROWS
    if correlated and not is_convolution(module):
        parts += _partners(rows - mean, variance)

    def read(numbers: Floats) -> dict[str, Any] | None:
        return _fields(numbers, count, features, by_feature)

    return torch.cat([part.to(rows.device) for part in parts]), read


def _partners(centered: torch.Tensor, variance: torch.Tensor) -> list[torch.Tensor]:
    """Return, for each feature, the most correlated earlier feature, and the correlation."""
    scaled = centered / (variance.sqrt() + 1e-30)
    scaled = torch.where(variance > 0, scaled, torch.zeros_like(scaled))
    with torch.autocast(scaled.device.type, enabled=False):  # otherwise in half precision
        between = (scaled.T @ scaled / len(centered)).abs().tril(diagonal=-1)
    best = between.max(dim=1)
    return [best.indices.float(), best.values]


def _fields(numbers: Floats, rows: int, features: int, by_feature: bool) -> dict[str, Any] | None:
    mean, std, smallest, largest, zeros, squared = (float(n) for n in numbers[:6])
    if not all(abs(n) < float("inf") for n in (mean, std, smallest, largest)):
        return None
    found: dict[str, Any] = {
        "rows": rows,
        "features": features,
        "mean": mean,
        "std": std,
        "smallest": smallest,
        "largest": largest,
        "zeros": zeros,
        "gain": max(0.0, squared) ** 0.5,
        "nonzero_rms": ((mean**2 + std**2) / max(1 - zeros, 1e-9)) ** 0.5 if zeros < 1 else 0.0,
    }
    if by_feature:
        blocks = numbers[6:].reshape(-1, features)
        found |= {
            "feature_means": _as_tuple(blocks[0]),
            "feature_stds": _as_tuple(blocks[1]),
            "feature_ties": _as_tuple(blocks[2]),
        }
        if len(blocks) > 3:
            found |= {
                "partners": tuple(int(place) for place in blocks[3]),
                "correlations": _as_tuple(blocks[4]),
            }
    return found


def _as_tuple(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def may_be_of(given: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether features match one model input, or all model inputs concatenated.

    Args:
        given: values of a layer, features along the last axis.
        inputs: inputs of the model.
    """
    widths = [tensor.shape[-1] if tensor.ndim > 1 else 1 for tensor in inputs]
    sizes = [math.prod(tensor.shape[1:]) for tensor in inputs]
    return given.shape[-1] in (*widths, *sizes, sum(widths), sum(sizes))
