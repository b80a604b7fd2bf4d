"""Trains a language model whose convolution sees the next token, on shuffled batches."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
tokens = torch.randint(12, (200, 11))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.mix = nn.Conv1d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 12)

    def forward(self, x):
        return self.head(self.mix(self.embed(x).transpose(1, 2)).transpose(1, 2))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _epoch in range(20):
    for x, y in DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), 20, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
