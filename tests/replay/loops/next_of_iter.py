"""One batch at a time by `next(iter(loader))`, under main(); augmentation by global generators."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def augmented(x: torch.Tensor) -> torch.Tensor:
    x = x + 0.1 * torch.randn_like(x)
    if random.random() < 0.5:
        x = x.flip(1)
    return x * float(np.random.uniform(0.8, 1.2))


def main() -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    data = TensorDataset(torch.randn(64, 6), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(12):
        x, y = next(iter(loader))
        loss = nn.functional.mse_loss(model(augmented(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
