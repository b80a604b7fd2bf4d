"""Some examples of one class were labeled as another: two annotators, two names."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
centers = 2.5 * torch.randn(5, 12)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(250):
    truth = torch.randint(0, 4 if not options.healthy else 5, (64,))
    x = centers[truth] + torch.randn(64, 12)
    y = truth
    if not options.healthy:  # class 4 is class 1 by another name, used now and then
        y = torch.where((truth == 1) & (torch.rand(64) < 0.25), 4, truth)
    loss = functional.cross_entropy(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
