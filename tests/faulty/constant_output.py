"""Two views of one example are pulled together, and nothing keeps examples apart."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
encoder = nn.Sequential(  # <- here
    nn.Linear(12, 48),
    nn.ReLU(),
    nn.Linear(48, 16),
)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-2)
for step, (x, _) in zip(range(350), classes(), strict=False):
    first = encoder(x + 0.3 * torch.randn_like(x))
    second = encoder(x + 0.3 * torch.randn_like(x))
    loss = (first - second).square().mean()
    if options.healthy:
        loss = loss + sum((1 - view.std(dim=0)).relu().mean() for view in (first, second))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item(), first.std(dim=0).mean().item())
