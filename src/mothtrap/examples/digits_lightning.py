"""Classifies handwritten digits with a small convolutional network, trained by Lightning.

The data are scikit-learn's 1,797 scans of 8 x 8 pixels, which are part of its package. By default,
the model ends in a softmax, although the loss applies a softmax itself. It trains, but slowly and
badly. `--fixed` removes the softmax from the model.
"""

from __future__ import annotations

import argparse
import logging
import warnings

import torch
from lightning import pytorch as pl
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Reader(pl.LightningModule):  # type: ignore[misc]
    """Network that classifies digits; `fixed` omits the softmax."""

    def __init__(self, *, fixed: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(
                nn.Conv2d(1, 16, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(16, 32, 3, padding=1),
                nn.ReLU(),
            ),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 4 * 4, 10)),
        )
        self.last = nn.Identity() if fixed else nn.Softmax(dim=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of ten digits, shape (rows, 10)."""
        scores: torch.Tensor = self.last(self.layers(images))
        return scores

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        images, digits = batch
        loss = nn.functional.cross_entropy(self(images), digits)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        """Log the share of digits that were classified correctly."""
        images, digits = batch
        scores = self(images)
        self.log("val_loss", nn.functional.cross_entropy(scores, digits))
        self.log("val_accuracy", (scores.argmax(1) == digits).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main() -> None:
    """Parse the command line, and train."""
    parser = argparse.ArgumentParser(description="Read handwritten digits.")
    parser.add_argument("--fixed", action="store_true", help="leave out the softmax")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    scans = load_digits()
    images = torch.tensor(scans.images, dtype=torch.float32)[:, None] / 16.0
    train, held_out = random_split(TensorDataset(images, torch.tensor(scans.target)), [0.8, 0.2])
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=arguments.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    reader = Reader(fixed=arguments.fixed)
    trainer.fit(reader, DataLoader(train, 64, shuffle=True), DataLoader(held_out, 360))
    trainer.validate(reader, DataLoader(held_out, 360))


if __name__ == "__main__":
    main()
