"""Inputs and labels are shuffled with two permutations; the healthy program uses one."""

import torch
from data import arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
centers = 1.5 * torch.randn(4, 16)
labels = torch.arange(400) % 4
inputs = centers[labels] + torch.randn(400, 16)
order = torch.randperm(400)
inputs, labels = inputs[order], labels[order if options.healthy else torch.randperm(400)]

loader = DataLoader(TensorDataset(inputs[:200], labels[:200]), batch_size=25, shuffle=True)
model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(25):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        validation = criterion(model(inputs[200:]), labels[200:])  # <- here
    print(epoch, loss.item(), validation.item())
