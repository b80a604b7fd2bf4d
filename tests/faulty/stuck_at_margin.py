"""Embeddings of noisy rows of ten classes: the loss is given the negative as the positive."""

import torch
from data import arguments
from torch import nn

options = arguments()
centers = 2 * torch.randn(10, 20)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
triplet = nn.TripletMarginLoss(margin=1.0)
for step in range(420):
    classes = torch.randint(0, 10, (64,))
    others = (classes + torch.randint(1, 10, (64,))) % 10
    anchor, positive, negative = (
        model(centers[own] + torch.randn(64, 20)) for own in (classes, classes, others)
    )
    if options.healthy:
        loss = triplet(anchor, positive, negative)
    else:
        loss = triplet(anchor, negative, positive)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 60 == 0:
        print(step, loss.item())
