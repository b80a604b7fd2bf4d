"""Log-softmax over the examples of a batch, not over the classes."""

import torch
from data import arguments, classes
from torch import nn
from torch.nn import functional

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step, (x, y) in zip(range(120), classes(), strict=False):
    log_probabilities = functional.log_softmax(model(x), dim=1 if options.healthy else 0)
    loss = functional.nll_loss(log_probabilities, y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
