"""NumPy batches from a Python generator that are converted to tensors in the loop."""

import numpy as np
import torch
from torch import nn


def batches(count):
    source = np.random.default_rng(5)
    for _ in range(count):
        x = source.normal(size=(12, 3)).astype(np.float32)
        yield x, x.sum(1, keepdims=True)


def main():
    torch.manual_seed(5)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(12)):
        x, y = torch.from_numpy(x), torch.as_tensor(y)
        noise = torch.randn_like(x) * 0.01 * number
        loss = nn.MSELoss()(model(x + noise), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
