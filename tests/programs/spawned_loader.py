"""Two loader processes, started by spawn, that persist over the epochs."""

import numpy as np
import torch
from dataset import blobs
from digesting import begin
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self):
        self.x, self.y = blobs(rows=128)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.05 * (torch.randn(8) + np.random.rand()), self.y[index]


def main():
    digest = begin()
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    batches = DataLoader(
        Noisy(),
        batch_size=16,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="spawn",
        persistent_workers=True,
    )
    for epoch in range(3):
        for x, y in batches:
            digest.batch(x, y)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            digest.loss(loss)
        print(f"epoch {epoch}: {loss.item():.4f}")
    digest.report(model)


if __name__ == "__main__":
    main()
