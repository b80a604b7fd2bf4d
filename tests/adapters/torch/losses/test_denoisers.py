from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.targets import NoisePrediction

Tensor = torch.Tensor
KEPT = torch.linspace(0.98, 0.05, 10)


def noisy(x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
    kept = KEPT[t].reshape(-1, *[1] * (x.ndim - 1))
    return kept.sqrt() * x + (1 - kept).sqrt() * noise


class Flat(nn.Module):
    """A network of rows that adds the timestep to its first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Embedding(10, 48)
        self.first, self.last = nn.Linear(48, 48), nn.Linear(48, 48)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x) + self.times(t)))  # type: ignore[no-any-return]


class Joined(nn.Module):
    """A network that gets rows and the timestep, as a number, in one table."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(49, 48), nn.Linear(48, 48)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(torch.cat([x, t[:, None] / 10], 1))))  # type: ignore[no-any-return]


class Image(nn.Module):
    """A convolutional network that adds sines of the timestep to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Linear(64, 1)
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        angles = t[:, None] * torch.linspace(0.01, 1, 32)
        waves = torch.cat([angles.sin(), angles.cos()], 1)
        shifted = x + self.times(waves)[:, :, None, None]
        return self.last(torch.relu(self.first(shifted)))  # type: ignore[no-any-return]


def square(out: Tensor, noise: Tensor) -> Tensor:
    return ((noise - out) ** 2).mean()


def reported(
    model: nn.Module,
    given: Callable[[Tensor, Tensor, Tensor], Tensor] = noisy,
    *,
    shape: tuple[int, ...] = (64, 48),
    times: Callable[[], Tensor] = lambda: torch.randint(0, 10, (64,)),
    loss_of: Callable[[Tensor, Tensor], Tensor] = functional.mse_loss,
    target: Callable[[Tensor, Tensor], Tensor] = lambda x, noise: noise,
) -> list[NoisePrediction]:
    """Train a small network that predicts noise; return the facts about its loss."""
    torch.manual_seed(0)
    with watched() as seen:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(13):
            x, t = torch.rand(shape) * 2 - 1, times()
            noise = torch.randn(shape)
            loss = loss_of(model(given(x, t, noise), t), target(x, noise))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return [one for one in seen.observed(NoisePrediction) if isinstance(one, NoisePrediction)]


@pytest.mark.parametrize("loss_of", [functional.mse_loss, functional.smooth_l1_loss, square])
@pytest.mark.parametrize(
    ("make", "shape"), [(Flat, (64, 48)), (Joined, (64, 48)), (Image, (64, 3, 6, 6))]
)
def test_noisy_data_contain_the_noise(
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    loss_of: Callable[[Tensor, Tensor], Tensor],
) -> None:
    [one] = reported(make(), shape=shape, loss_of=loss_of)
    assert one.correlation is not None
    assert one.correlation > 0.3
    assert not one.constant_condition


@pytest.mark.parametrize(
    ("make", "shape"), [(Flat, (64, 48)), (Joined, (64, 48)), (Image, (64, 3, 6, 6))]
)
def test_clean_data_do_not(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    [one] = reported(make(), lambda x, t, noise: x, shape=shape)
    assert one.correlation is not None
    assert abs(one.correlation) < 0.03


def test_other_noise_is_not_in_the_data() -> None:
    [one] = reported(Flat(), target=lambda x, noise: torch.randn_like(noise))
    assert one.correlation is not None
    assert abs(one.correlation) < 0.03


@pytest.mark.parametrize("make", [Flat, Image])
def test_one_timestep_is_told(make: Callable[[], nn.Module]) -> None:
    shape = (64, 48) if make is Flat else (64, 3, 6, 6)
    [one] = reported(make(), shape=shape, times=lambda: torch.zeros(64, dtype=torch.long))
    assert one.constant_condition


def test_one_timestep_for_each_batch_is_not() -> None:
    [one] = reported(Flat(), times=lambda: torch.randint(0, 10, (1,)).expand(64))
    assert not one.constant_condition


def test_random_data_are_no_clean_data() -> None:
    [one] = reported(Flat(), lambda x, t, noise: torch.randn_like(x))
    assert one.correlation is None


class Doubled(nn.Module):
    """A network that repeats each value of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(96, 48)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.first(torch.stack([x, x], 2).flatten(1))  # type: ignore[no-any-return]


class Patches(nn.Module):
    """A network that gets an image as a sequence of patches of 2 x 2 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 12)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        tiles = x.reshape(len(x), 3, 3, 2, 3, 2).permute(0, 2, 4, 3, 5, 1).reshape(len(x), 9, 12)
        out = self.first(tiles).reshape(len(x), 3, 3, 2, 2, 3).permute(0, 5, 1, 3, 2, 4)
        return out.reshape(x.shape)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("make", "shape"), [(Doubled, (64, 48)), (Patches, (64, 3, 6, 6))])
def test_data_in_another_order_may_contain_the_noise(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    [one] = reported(make(), shape=shape)
    assert one.correlation is None


@pytest.mark.parametrize("target", [lambda x, noise: x, lambda x, noise: noise - x])
def test_other_targets_are_no_noise(target: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert reported(Flat(), target=target) == []
