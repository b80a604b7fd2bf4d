"""Read handwritten digits with a network whose last layer is a map for each class.

The score of a class is the mean of its map, so that a map says where in the scan a class is
seen: a class activation map. As a mean of a linear layer is a linear layer of means, this is the
usual pooling followed by a linear layer. The data are scikit-learn's 1,797 scans of 8 x 8 pixels.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

SHOWN = 64
"""Scans of the evaluation, the same at each."""


class Reader(nn.Module):
    """Convolutions, and a map for each of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.maps = nn.Conv2d(32, 10, 1)

    def forward(self, scans: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        return self.maps(self.features(scans)).mean(dim=(2, 3))


def main() -> None:
    """Train, and evaluate the same scans after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loaded = load_digits()
    scans = torch.as_tensor(loaded.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.as_tensor(loaded.target, dtype=torch.int64)
    order = torch.randperm(len(scans))
    shown, rest = order[:SHOWN], order[SHOWN:]
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(1, epochs + 1):
        model.train()
        for batch in rest[torch.randperm(len(rest))].split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(scans[batch]), labels[batch]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(scans[shown])
            loss = functional.cross_entropy(scores, labels[shown])
        right = (scores.argmax(dim=1) == labels[shown]).float().mean()
        print(f"epoch {epoch}: loss {loss:.3f}, {right:.0%} of {SHOWN} scans read right")


if __name__ == "__main__":
    main()
