from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.loss_terms import CodeNoise

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


@pytest.mark.parametrize(
    ("mean_of", "log_variance_of", "clipped"),
    [
        (torch.relu, torch.relu, [("mean", "log variance")]),
        (torch.tanh, torch.relu, [("log variance",)]),
        (torch.relu, torch.tanh, [("mean",)]),
        (torch.tanh, lambda out: out.clamp(-10, 10), []),
    ],
    ids=["both", "log variance", "mean", "neither"],
)
def test_a_code_behind_a_relu(
    mean_of: Scale, log_variance_of: Scale, clipped: list[tuple[str, ...]]
) -> None:
    encoder, decoder = nn.Linear(8, 6), nn.Linear(3, 8)
    with watched() as seen:
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
        for _ in range(13):
            x = torch.rand(5, 8)
            first, second = encoder(x).chunk(2, 1)
            mean, out = mean_of(first), log_variance_of(second)
            code = mean + torch.exp(0.5 * out) * torch.randn(5, 3)
            loss = (decoder(code) - x).square().sum() + by_log_variance(mean, out)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert [one.clipped for one in seen.observed(CodeNoise)] == clipped


def without_divergence(
    *,
    extra: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda mean, out, code: mean.sum() * 0,
    last: bool = True,
    twice: bool = False,
) -> list[str]:
    """Return the reported factors of a loss that is a reconstruction and an `extra` term."""
    encoder, decoder = nn.Linear(8, 6), nn.Linear(3, 8)
    with watched() as seen:
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
        for _ in range(13):
            x = torch.rand(5, 8)
            mean, out = encoder(x).chunk(2, 1)
            code = mean + torch.exp(0.5 * out) * torch.randn(5, 3)
            optimizer.zero_grad()
            made = decoder(torch.relu(code)) if last else code.repeat(1, 3)[:, :8]
            loss = functional.mse_loss(made, x) + extra(mean, out, code)
            if twice:
                by_log_variance(mean, out).backward(retain_graph=True)
            loss.backward()
            optimizer.step()
    return [one.factor for one in seen.observed(CodeNoise) if isinstance(one, CodeNoise)]


def test_a_loss_without_the_variance_is_told() -> None:
    assert without_divergence() == [""]
    assert without_divergence(extra=lambda mean, out, code: mean.square().sum()) == [""]


@pytest.mark.parametrize(
    "extra",
    [
        lambda mean, out, code: by_log_variance(mean, out),
        lambda mean, out, code: 0.0 * by_log_variance(mean, out),
        lambda mean, out, code: torch.distributions.kl_divergence(
            torch.distributions.Normal(mean, torch.exp(0.5 * out)),
            torch.distributions.Normal(torch.zeros(3), torch.ones(3)),
        ).sum(),
        lambda mean, out, code: (out - (code - mean).square() / out.exp()).mean(),
        lambda mean, out, code: torch.cdist(code, torch.randn(5, 3)).mean(),
    ],
)
def test_a_term_of_the_variance_is_enough(
    extra: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> None:
    assert without_divergence(extra=extra) == []


def test_noise_on_the_output_is_no_code() -> None:
    assert without_divergence(last=False) == []


def test_the_divergence_may_have_its_own_backward_pass() -> None:
    assert without_divergence(twice=True) == []
