"""Small deterministic trainings with Lightning."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import Any

import torch
from lightning import pytorch as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"accumulate_grad_batches": 4},
    "clipped": {"gradient_clip_val": 0.5},
    "bf16": {"precision": "bf16-mixed"},
    "manual": {},
    "nan": {},
    "lbfgs": {},
    "scheduled": {"gradient_clip_val": 0.1, "gradient_clip_algorithm": "value"},
}


class Net(pl.LightningModule):
    """A regression; `kind` selects how it trains."""

    def __init__(self, kind: str = "plain") -> None:
        super().__init__()
        self.kind = kind
        self.automatic_optimization = kind != "manual"
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.net(x)
        return out + torch.log(x[:, :1] + 8) if self.kind == "nan" else out

    def training_step(self, batch: Any, _: int) -> torch.Tensor | None:
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)  # the loss of training
        self.log("train_loss", loss)
        if self.kind == "nothing":
            return None
        if self.kind != "manual":
            return loss
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return None

    def validation_step(self, batch: Any, _: int) -> None:
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self(x), y))

    def test_step(self, batch: Any, _: int) -> None:  # noqa: PT019
        x, y = batch
        self.log("test_loss", nn.functional.mse_loss(self(x), y))

    def predict_step(self, batch: Any, _: int) -> torch.Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> Any:
        if self.kind == "lbfgs":  # calls the closure again and again
            return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)
        if self.kind == "scheduled":
            optimizer = torch.optim.SGD(self.parameters(), lr=1e-2, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def data() -> tuple[TensorDataset, TensorDataset]:
    """Return training and validation rows; one training row breaks a `nan` module."""
    x = torch.randn(160, 8, generator=torch.Generator().manual_seed(1))
    y = x.sum(1, keepdim=True)
    x[70, 0] = -9
    return TensorDataset(x[:128], y[:128]), TensorDataset(x[128:], y[128:])


def trainer(**settings: Any) -> pl.Trainer:
    """Return a trainer that writes nothing."""
    return pl.Trainer(
        accelerator="cpu",
        max_epochs=settings.pop("max_epochs", 3),
        logger=settings.pop("logger", False),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        **settings,
    )


def fit(kind: str = "plain", *, then: str = "", **settings: Any) -> Net:
    """Train from the beginning; `then` is another method of the trainer that is called after it."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = Net(kind)
        train, held_out = data()
        one = trainer(**SETTINGS.get(kind, {}), **settings)
        loader = DataLoader(held_out, 16)
        one.fit(model, DataLoader(train, 16, shuffle=True), loader)
        if then:
            getattr(one, then)(model, loader)
    return model


def trained(kind: str, *, ranks: int) -> bytes:
    """Train as one of several ranks that are already running; return the weights."""
    return weights(fit(kind, strategy="ddp", devices=ranks))


def weights(model: nn.Module) -> bytes:
    """Return the weights of a model and the state of the random generator."""
    parts = [p.detach().numpy().tobytes() for p in model.parameters()]
    return b"".join(parts) + torch.get_rng_state().numpy().tobytes()
