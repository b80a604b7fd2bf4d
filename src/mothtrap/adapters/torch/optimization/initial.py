"""Detection of the default initialization of PyTorch, and of models of Hugging Face."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

MIN_ELEMENTS = 64
"""Minimum number of elements for evaluating a distribution. Chosen by hand."""

MAX_ELEMENTS = 65_536
"""Maximum number of inspected elements of a weight, from its beginning."""

SMALL = 0.02
"""Deviation of the initial weights of transformers: `initializer_range` of most configurations."""

EDGE = 1.001
"""Tolerance of the bound for rounding; a trained weight exceeds it by more."""


def looks_untouched(modules: Iterable[nn.Module]) -> bool | None:
    """Return whether all weights that the modules themselves hold look newly initialized.

    None if this cannot be determined for any weight: it is possible only for larger weights with
    uniform or normal defaults.
    """
    judged = [
        _is_default(*default) or _is_small_normal(m, default[0])
        for m in modules
        for default in _defaults(m)
    ]
    return all(judged) if judged else None


def _defaults(module: nn.Module) -> Iterator[tuple[torch.Tensor, str, float]]:
    """Yield a module's own weights with their initial distribution and its bound or deviation."""
    if isinstance(module, nn.Linear | _ConvNd):
        fan_in = module.weight.shape[1:].numel()  # also for a transposed layer, as in PyTorch
        if fan_in and not isinstance(module, _ConvTransposeNd):
            yield from _of_size(module.weight, "uniform", 1 / math.sqrt(fan_in))
    elif isinstance(module, nn.RNNBase):
        for name, weight in module.named_parameters(recurse=False):
            if name.startswith("weight"):
                yield from _of_size(weight, "uniform", 1 / math.sqrt(module.hidden_size))
    elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
        yield from _of_size(module.weight, "normal", 1.0)


def _of_size(
    weight: torch.Tensor, kind: str, width: float
) -> Iterator[tuple[torch.Tensor, str, float]]:
    if weight.numel() >= MIN_ELEMENTS and weight.device.type != "meta":
        yield weight, kind, width


def _is_default(weight: torch.Tensor, kind: str, width: float) -> bool:
    values = weight.detach().reshape(-1)[:MAX_ELEMENTS].float()
    # Six standard errors of a deviation, whose kurtosis is 9/5 (uniform) or 3 (normal).
    slack = 6 * math.sqrt((0.8 if kind == "uniform" else 2.0) / (4 * values.numel()))
    deviation = width / math.sqrt(3) if kind == "uniform" else width
    if abs(float(values.std()) / deviation - 1) > slack:
        return False
    largest = float(values.abs().max())
    return kind == "normal" or 0.8 * width < largest <= EDGE * width


def _is_small_normal(module: nn.Module, weight: torch.Tensor) -> bool:
    """Return whether weights look like a transformer that was created from its configuration.

    They have a normal distribution around 0 with a deviation of 0.02, and biases are 0. Trained
    weights have heavier tails, and other biases.
    """
    if not isinstance(module, nn.Linear | nn.Embedding):
        return False
    bias = getattr(module, "bias", None)
    if bias is not None and bool(bias.detach().any()):
        return False
    if not _is_default(weight, "normal", SMALL):
        return False
    values = weight.detach().reshape(-1)[:MAX_ELEMENTS].float() / SMALL
    values = values[values != 0]  # an embedding of padding
    kurtosis = float(values.pow(4).mean())
    return abs(kurtosis - 3) < 6 * math.sqrt(96 / values.numel())


def looks_drawn_uniformly(weight: torch.Tensor) -> bool:
    """Return whether values fill an interval around 0 evenly, like most initializations.

    Trained weights have heavier tails: among a few hundred values, the largest is 2.8 deviations
    away.
    """
    values = weight.detach().reshape(-1)[:MAX_ELEMENTS].float()
    if values.numel() < 4 * MIN_ELEMENTS:
        return False
    slack = 6 * math.sqrt(0.8 / (4 * values.numel()))
    deviation = float(values.std())
    largest = float(values.abs().max()) / math.sqrt(3)
    centered = abs(float(values.mean())) < deviation / 4
    return centered and 0.8 * deviation < largest < (1 + slack) * deviation
