"""One of many files holds NaN; two loader workers read them.

No operation: the batch holds NaN in row 4 of its first part, step 112.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from telling import Telling
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    """Rows kept as `.npy` files."""

    def __init__(self, folder):
        self.samples = sorted(folder.glob("*.npy"))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        row = torch.from_numpy(np.load(self.samples[index]))
        return row[:6], row[6:]


def written(folder):
    """Write 1200 files of 7 numbers; one of them contains NaN."""
    made = np.random.default_rng(7)
    for number in range(1200):
        row = made.normal(size=7).astype(np.float32)
        if number == 112 * 10 + 4:
            row[2] = np.nan
        np.save(folder / f"row_{number:04d}.npy", row)
    return folder


def main():
    """Train over all files once."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    with tempfile.TemporaryDirectory() as folder:
        loader = DataLoader(Files(written(Path(folder))), batch_size=10, num_workers=2)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        tell = Telling(model)
        for step, (x, y) in enumerate(loader):
            tell(step)
            loss = nn.functional.mse_loss(model(x), y)  # <- here
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
