"""A shared trunk with a classification and a regression head, losses weighted."""

import torch
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=8)
x, y, x_test, y_test = digits()
ink = x.mean(1, keepdim=True)
ink = (ink - ink.mean()) / ink.std()
loader = DataLoader(TensorDataset(x, y, ink), batch_size=64, shuffle=True)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.digit, self.ink = nn.Linear(64, 10), nn.Linear(64, 1)

    def forward(self, rows):
        h = self.trunk(rows)
        return self.digit(h), self.ink(h)


model = TwoHeads()
optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
classification, regression = nn.CrossEntropyLoss(), nn.SmoothL1Loss()
for epoch in range(options.epochs):
    model.train()
    for rows, labels, target in loader:
        logits, amount = model(rows)
        loss = classification(logits, labels) + 0.3 * regression(amount, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, (model(x_test)[0].argmax(1) == y_test).float().mean().item())
