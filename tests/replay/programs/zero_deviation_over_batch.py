"""A feature is standardised over the batch; in one batch it is the same in every row: 0 / 0.

Operation torch.div, no single row, step 133. Batches cut by hand, in a function.
"""

import torch
from telling import Telling
from torch import nn


def standardised(x):
    """Return features (rows, features) with mean 0 and deviation 1 over the batch."""
    return (x - x.mean(0)) / x.std(0, correction=0)  # <- here


def main():
    """Train for 145 steps."""
    torch.set_num_threads(1)
    torch.manual_seed(2)
    features = torch.randn(145 * 24, 5)
    features[133 * 24 : 134 * 24, 3] = 1.0  # an hour in which the sensor hung
    targets = features.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    tell = Telling(model)
    for step in range(145):
        tell(step)
        rows = slice(step * 24, (step + 1) * 24)
        x, y = features[rows], targets[rows]
        loss = ((model(standardised(x)) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
