"""Inputs and labels are shuffled with two permutations, and nothing is evaluated."""

import torch
from data import arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
centers = 1.5 * torch.randn(4, 16)
labels = torch.arange(1000) % 4
inputs = centers[labels] + torch.randn(1000, 16)
order = torch.randperm(1000)
inputs, labels = inputs[order], labels[order if options.healthy else torch.randperm(1000)]

loader = DataLoader(TensorDataset(inputs, labels), batch_size=25, shuffle=True)
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(25):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)  # <- here
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
