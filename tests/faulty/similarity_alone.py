"""A siamese network whose target branch carries a gradient."""

import torch
from data import arguments
from torch import nn

options = arguments()
kinds = torch.randn(5, 16)
encoder = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
predictor = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))
weights = [*encoder.parameters(), *predictor.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9)
similarity = nn.CosineSimilarity(dim=1)
for step in range(120):
    x = kinds[torch.randint(5, (64,))] + 0.3 * torch.randn(64, 16)
    z1, z2 = (encoder(x + 0.2 * torch.randn_like(x)) for _ in range(2))
    t1, t2 = (z1.detach(), z2.detach()) if options.healthy else (z1, z2)
    alike = similarity(predictor(z1), t2).mean() + similarity(predictor(z2), t1).mean()
    loss = -0.5 * alike  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), z1.std(dim=0).mean().item())
