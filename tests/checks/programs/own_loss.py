"""A language model that is called with its targets, and computes its loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
tokens = torch.randint(8, (200, 11))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(8, 32), nn.Linear(32, 8)

    def forward(self, x, y):
        scores = self.head(torch.relu(self.tokens(x)))
        return scores, nn.functional.cross_entropy(scores.flatten(0, 1), y.reshape(-1))


for row in range(1, 11):  # each token follows from the one before it
    tokens[:, row] = (3 * tokens[:, row - 1] + 1) % 8
loader = DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), 20)
model = Language()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _epoch in range(30):
    for inputs, targets in loader:
        optimizer.zero_grad()
        model(inputs, targets)[1].backward()
        optimizer.step()
