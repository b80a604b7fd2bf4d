"""The cases as LightningModules."""

from __future__ import annotations

import logging
import warnings

import torch
from lightning import pytorch as pl
from programs import CASES, arguments, optimizer_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    def __init__(self, case, healthy):
        super().__init__()
        self.model, self.case, self.healthy = case.model, case, healthy

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.model(x), y)  # the loss
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        out = self.model(x)
        self.log("val_loss", nn.functional.cross_entropy(out, y))
        self.log("val_acc", (out.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return optimizer_of(self.case, self.parameters())


class Regression(Classifier):
    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)  # the loss
        self.log("train_loss", loss, prog_bar=True)
        return {"loss": loss}

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.model(x), y))


class SquaredError(Classifier):
    def training_step(self, batch, _):
        x, y = batch
        out = self.model(x)
        if self.healthy:
            out = out.squeeze(1)
        loss = ((out - y) ** 2).mean()  # the loss
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", ((self.model(x).squeeze(1) - y) ** 2).mean())


class Likelihood(Classifier):
    def training_step(self, batch, _):
        x, y = batch
        log_p = torch.log_softmax(self.model(x), 1).gather(1, y[:, None])
        loss = -log_p.mean() if self.healthy else log_p.mean()  # the loss
        self.log("train_loss", loss)
        return loss


class Binary(Classifier):
    def loss(self, x, y):
        z = self.model(x).squeeze(1)
        if self.healthy:
            return nn.functional.binary_cross_entropy_with_logits(z, y)
        p = torch.sigmoid(z)
        return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # the loss

    def training_step(self, batch, _):
        loss = self.loss(*batch)  # the loss
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(*batch))


class Language(Classifier):
    def training_step(self, batch, _):
        x, y = batch
        logits = self.model(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())  # the loss
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.model(x).flatten(0, 1), y.flatten()))


class Scheduled(Classifier):
    def configure_optimizers(self):
        optimizer = optimizer_of(self.case, self.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        interval = "epoch" if self.healthy else "step"
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": interval}}


MODULES = {
    "mse_broadcast": SquaredError,
    "lr_diverges": Regression,
    "overfit_small_data": Regression,
    "loss_sign_flipped": Likelihood,
    "log_of_zero_late": Binary,
    "labels_not_shifted": Language,
    "scheduler_per_batch": Scheduled,
}


def main(name, healthy, seed=0):
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(seed)
    case = CASES[name](healthy)
    Xt, yt, Xv, yv = case.data
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=case.epochs, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(
        MODULES.get(name, Classifier)(case, healthy),
        DataLoader(TensorDataset(Xt, yt), case.batch, shuffle=case.shuffle),
        DataLoader(TensorDataset(Xv, yv), 256),
    )


if __name__ == "__main__":
    given = arguments()
    main(given.case, given.healthy, given.seed)
