"""Gradients of two micro-batches, the second one's computed in a closure of the optimizer.

Operation torch.log, row 5, step 115: of its second micro-batch.
"""

import torch
from telling import Telling
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
features = torch.randn(2 * 125, 12, 6)
features[2 * 115 + 1, 5] = 0.0  # a sensor that was off

model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
tell = Telling(model)


def backward(rows):
    """Add the gradients of a micro-batch."""
    guess = model(rows)
    energy = torch.log(rows.square().mean(1, keepdim=True))  # <- here
    loss = (guess - energy).square().mean() / 2
    loss.backward()
    return loss


for step in range(125):
    tell(step)
    optimizer.zero_grad()
    backward(features[2 * step])
    second = features[2 * step + 1]
    optimizer.step(lambda second=second: backward(second))
