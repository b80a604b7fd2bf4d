"""Slices of tensors, permuted in each epoch; targets are sliced in the call of the loss."""

import torch
from torch import nn


def train() -> None:
    torch.manual_seed(3)
    X, Y = torch.randn(96, 4), torch.randn(96, 1)
    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.2), nn.ReLU(), nn.Linear(6, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    for epoch in range(4):
        order = torch.randperm(len(X))
        for i in range(0, len(X), 32):
            weight = 1.0 / (1 + epoch)
            loss = weight * ((model(X[order[i : i + 32]]) - Y[order[i : i + 32]]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


train()
