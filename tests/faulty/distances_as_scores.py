"""Classes are chosen by the distance to their centers, which the loss makes larger."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
means = 2 * torch.randn(5, 8)
encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 6))
centers = nn.Parameter(torch.randn(5, 6))
optimizer = torch.optim.Adam([*encoder.parameters(), centers], lr=1e-3)
for step in range(200):
    labels = torch.randint(0, 5, (32,))
    rows = means[labels] + torch.randn(32, 8)
    distances = torch.cdist(encoder(rows), centers)
    scores = -distances if options.healthy else distances
    loss = functional.cross_entropy(scores, labels)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
