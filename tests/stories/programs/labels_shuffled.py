"""Labels are shuffled against the inputs: a small model hardly beats the loss from guessing."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
centers = torch.randn(8, 30)
y = torch.arange(1600) % 8
x = centers[y] + torch.randn(1600, 30)
order = torch.randperm(1600)
x, y = x[order], y[order if "--healthy" in sys.argv else torch.randperm(1600)]
training, rest = TensorDataset(x[:1200], y[:1200]), TensorDataset(x[1200:], y[1200:])
model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(14):
    model.train()
    for inputs, labels in DataLoader(training, 60, shuffle=True):
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for inputs, labels in DataLoader(rest, 100):
            functional.cross_entropy(model(inputs), labels)  # <- here
