"""The last batch is smaller, and the model has the size of a batch written into it.

Operation torch.reshape in module fold, no rows, step 125, an exception.
"""

import torch
from telling import Telling
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Fold(nn.Module):
    """Lays the parts of a row side by side."""

    def forward(self, x):
        return x.reshape(16, 12)  # <- here


def main():
    """Train for one epoch."""
    torch.set_num_threads(1)
    torch.manual_seed(9)
    parts = torch.randn(125 * 16 + 7, 3, 4)
    targets = parts.mean((1, 2)).unsqueeze(1)
    model = nn.Sequential()
    model.add_module("fold", Fold())
    model.add_module("hidden", nn.Linear(12, 16))
    model.add_module("act", nn.GELU())
    model.add_module("out", nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    tell = Telling(model)
    for step, (x, y) in enumerate(DataLoader(TensorDataset(parts, targets), batch_size=16)):
        tell(step)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
