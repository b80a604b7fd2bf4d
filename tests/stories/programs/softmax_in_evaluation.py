"""The model returns logits in training and probabilities in evaluation; its loss expects logits."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 5))

    def forward(self, x):
        scores = self.layers(x)
        if self.training or "--healthy" in sys.argv:
            return scores
        return functional.softmax(scores, dim=-1)


centers = 2 * torch.randn(5, 20)
y = torch.randint(0, 5, (600,))
x = centers[y] + 2 * torch.randn(600, 20)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(12):
    model.train()
    for rows in torch.randperm(400).split(40):
        loss = functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for rows in torch.arange(400, 600).split(50):
            functional.cross_entropy(model(x[rows]), y[rows])  # <- here
