"""Two processes load and augment, and persist from one epoch to the next."""

import torch
from common import BAD, ROW, Log
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCHES = 41


class Rows(Dataset):
    """Rows with noise; a row of the bad step is negative the second time that it is read."""

    def __init__(self):
        self.features = torch.rand(8 * BATCHES, 6, generator=torch.Generator().manual_seed(0))
        self.asked = torch.zeros(8 * BATCHES, dtype=torch.int64).share_memory_()

    def __len__(self):
        return 8 * BATCHES

    def __getitem__(self, index):
        self.asked[index] += 1
        row = self.features[index] + 0.1 + 0.01 * torch.rand(6)
        if index == 8 * (BAD - BATCHES) + ROW and self.asked[index] == 2:
            row[2] = -5.0
        return row, index % 3


def main():
    torch.manual_seed(0)
    model = nn.Sequential(Log(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Rows(), batch_size=8, num_workers=2, persistent_workers=True)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
