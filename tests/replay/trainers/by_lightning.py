"""A LightningModule; arguments: `manual`, `accumulation`, `bf16`."""

import logging
import sys
import warnings

import torch
from lightning import pytorch as pl
from rows import EPOCHS, SIZE, network, rows
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(pl.LightningModule):
    def __init__(self, manual):
        super().__init__()
        self.automatic_optimization = not manual
        self.net = network()

    def training_step(self, batch, _):
        x, y = batch
        weight = 1.0 / (1 + self.global_step)
        energy = x[:, :1]
        if self.current_epoch >= 2:
            energy = torch.log(energy.abs())  # <- here
        loss = nn.functional.mse_loss(self.net(x) + weight * energy, y)
        self.log("train_loss", loss)
        if self.automatic_optimization:
            return loss
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return None

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


x, y = rows()
pl.Trainer(
    accelerator="cpu",
    max_epochs=EPOCHS,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    accumulate_grad_batches=4 if "accumulation" in sys.argv else 1,
    precision="bf16-mixed" if "bf16" in sys.argv else "32-true",
).fit(Net("manual" in sys.argv), DataLoader(TensorDataset(x, y), SIZE, shuffle=True))
