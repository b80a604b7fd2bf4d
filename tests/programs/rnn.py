"""A two-layer LSTM with dropout that adds up the marked entries of a sequence."""

import torch
from digesting import begin
from torch import nn


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 24, num_layers=2, dropout=0.1, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        states, _ = self.lstm(x)
        return self.out(states[:, -1]).squeeze(1)


digest = begin()
model = Adder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()
for step in range(48):
    values, marks = torch.rand(32, 12), (torch.rand(32, 12) < 0.3).float()
    x, y = torch.stack([values, marks], 2), (values * marks).sum(1)
    digest.batch(x, y)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    digest.loss(loss)
    if step % 20 == 0:
        print(f"step {step}: {loss.item():.4f}")
digest.report(model)
