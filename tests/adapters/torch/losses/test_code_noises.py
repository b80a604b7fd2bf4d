from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.losses import CodeNoise

Tensor = torch.Tensor
Scale = Callable[[Tensor], Tensor]


def by_log_variance(mean: Tensor, out: Tensor) -> Tensor:
    return -0.5 * torch.sum(1 + out - mean.pow(2) - out.exp())


def by_log_deviation(mean: Tensor, out: Tensor) -> Tensor:
    return -0.5 * torch.sum(1 + 2 * out - mean.pow(2) - torch.exp(2 * out))


def by_square(mean: Tensor, out: Tensor) -> Tensor:
    return torch.sum(0.5 * (mean.pow(2) + out.exp().pow(2) - 1) - out)


def factors(scale: Scale, divergence: Callable[[Tensor, Tensor], Tensor]) -> list[str]:
    """Return the wrong factors that are reported for a small autoencoder."""
    encoder, decoder = nn.Linear(8, 6), nn.Linear(3, 8)
    with watched() as seen:
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
        for _ in range(13):
            x = torch.rand(5, 8)
            mean, out = encoder(x).chunk(2, 1)
            code = functional.dropout(mean) + scale(out) * torch.randn(5, 3)
            loss = (decoder(code) - x).square().sum() + divergence(mean, out)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return [one.factor for one in seen.observed(CodeNoise) if isinstance(one, CodeNoise)]


@pytest.mark.parametrize(
    ("scale", "factor"), [(torch.exp, "variance"), (lambda out: out, "log variance")]
)
def test_noise_times_another_factor_is_told(scale: Scale, factor: str) -> None:
    assert factors(scale, by_log_variance) == [factor]


@pytest.mark.parametrize(
    ("scale", "divergence"),
    [
        (lambda out: torch.exp(0.5 * out), by_log_variance),
        (lambda out: torch.exp(out / 2), by_log_variance),
        (lambda out: out.exp().sqrt(), by_log_variance),
        (torch.exp, by_log_deviation),
        (torch.exp, by_square),
        (torch.exp, lambda mean, out: mean.square().sum() + out.square().sum()),
    ],
)
def test_noise_times_the_standard_deviation_is_not_told(
    scale: Scale, divergence: Callable[[Tensor, Tensor], Tensor]
) -> None:
    assert factors(scale, divergence) == []
