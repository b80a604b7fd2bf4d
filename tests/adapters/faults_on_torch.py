"""Small faulty PyTorch programs that any trainer can train, each with its repaired twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
CLASSES, WIDTH, ROWS = 10, 16, 480


@dataclass(kw_only=True)
class Program:
    """A model, a loss and data.

    Attributes:
        loss: of outputs and targets.
        x: inputs, shape (rows, ...); y: targets of these.
        rate: of plain SGD with momentum 0.9.
        shuffles: rows are drawn in a different order in each epoch.
        named: rules that name the fault; empty in the twin.
        at_loss: the finding is placed at the line of the loss.
    """

    model: nn.Module
    x: torch.Tensor
    y: torch.Tensor
    loss: Loss = functional.cross_entropy
    rate: float = 0.05
    shuffles: bool = True
    epochs: int = 5
    named: tuple[str, ...] = ()
    at_loss: bool = False


def clusters() -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows around a center for each class."""
    generator = torch.Generator().manual_seed(1)
    centers = torch.randn(CLASSES, WIDTH, generator=generator)
    y = torch.randint(0, CLASSES, (ROWS,), generator=generator)
    return centers[y] + 0.8 * torch.randn(ROWS, WIDTH, generator=generator), y


def network(*more: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, CLASSES), *more
    )


def softmax_before_ce(healthy: bool) -> Program:
    x, y = clusters()
    more = () if healthy else (nn.Softmax(dim=1),)
    named = ("softmax_before_cross_entropy",)
    return Program(model=network(*more), x=x, y=y, named=named, at_loss=True)


def loss_sign_flipped(healthy: bool) -> Program:
    x, y = clusters()

    def loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        chosen = torch.log_softmax(logits, 1).gather(1, y[:, None])
        return -chosen.mean() if healthy else chosen.mean()

    named = ("wrong_sign",)
    return Program(model=network(), x=x, y=y, loss=loss, rate=0.01, named=named, at_loss=True)


def zero_init(healthy: bool) -> Program:
    x, y = clusters()
    model = network()
    if not healthy:
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    return Program(model=model, x=x, y=y, named=("symmetric_initialization", "poor_initialization"))


def inputs_0_255(healthy: bool) -> Program:
    x, y = clusters()
    x = (x - x.min()) / (x.max() - x.min()) * 255
    return Program(model=network(), x=x / 255 if healthy else x, y=y, named=("unnormalized_input",))


class Frozen(nn.Module):
    """A head on an encoder that runs without gradients."""

    def __init__(self, healthy: bool) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(WIDTH, 32), nn.Linear(32, CLASSES)
        self.healthy = healthy

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(self.healthy and torch.is_grad_enabled()):
            z = torch.tanh(self.encoder(x))
        return self.head(z)


def encoder_without_grad(healthy: bool) -> Program:
    x, y = clusters()
    return Program(model=Frozen(healthy), x=x, y=y, named=("disconnected_parameter",))


class Regression(nn.Module):
    """A regression with outputs of shape (rows, 1) or (rows,)."""

    def __init__(self, squeezes: bool) -> None:
        super().__init__()
        self.net, self.squeezes = nn.Linear(WIDTH, 1), squeezes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.net(x)
        return out.squeeze(1) if self.squeezes else out


def mse_broadcast(healthy: bool) -> Program:
    x, _ = clusters()
    y = x.sum(1)

    def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (out - y).square().mean()

    model, named = Regression(squeezes=healthy), ("loss_broadcast",)
    return Program(model=model, x=x, y=y, loss=loss, rate=0.005, named=named, at_loss=True)


def nan_in_input(healthy: bool) -> Program:
    x, y = clusters()
    if not healthy:
        x[300, 3] = torch.nan
    return Program(model=network(), x=x, y=y, named=("nonfinite_input",))


def log_of_zero(healthy: bool) -> Program:
    x, _ = clusters()
    y = (x[:, 0] > 0).float()
    x[300], y[300] = 60 * x[300].abs(), 0

    def naive(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid(out.squeeze(1))
        return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()

    def safe(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(out.squeeze(1).clamp(-20, 20), y)

    model = nn.Linear(WIDTH, 1)
    nn.init.constant_(model.weight, 0.2)
    named = ("nonfinite_loss", "nonfinite_gradient", "nonfinite_activation")
    return Program(model=model, x=x, y=y, loss=safe if healthy else naive, named=named)


def sorted_not_shuffled(healthy: bool) -> Program:
    x, y = clusters()
    order = y.argsort()
    named = ("unshuffled_batches",)
    return Program(model=network(), x=x[order], y=y[order], shuffles=healthy, named=named)


FAULTS: dict[str, Callable[[bool], Program]] = {
    each.__name__: each
    for each in (
        softmax_before_ce,
        loss_sign_flipped,
        zero_init,
        inputs_0_255,
        encoder_without_grad,
        mse_broadcast,
        nan_in_input,
        log_of_zero,
        sorted_not_shuffled,
    )
}
