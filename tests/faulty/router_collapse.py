"""A bias that disables all experts but one, meant for a test, was left in."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
EXPERTS = 4


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(12, EXPERTS)  # <- here
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        best, chosen = weights.max(dim=-1)
        out = torch.stack([expert(x) for expert in self.experts], dim=1)
        out = best[:, None] * out[torch.arange(len(x)), chosen]
        share = torch.bincount(chosen, minlength=EXPERTS) / len(x)
        return out, EXPERTS * (share * weights.mean(dim=0)).sum()


model = Mixture()
if not options.healthy:
    nn.init.constant_(model.gate.bias[:1], 10.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step, (x, y) in zip(range(200), classes(), strict=False):
    out, balance = model(x)
    loss = nn.functional.cross_entropy(out, y) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), balance.item())
