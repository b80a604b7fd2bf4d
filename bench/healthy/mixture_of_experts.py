"""Four experts, top-2 routing, and the usual load-balancing loss."""

import torch
import torch.nn.functional as F
from _common import digits, seeded
from torch import nn

options = seeded(epochs=8)
x, y, x_test, y_test = digits()
EXPERTS = 4


class MoE(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.router = nn.Linear(width, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
            for _ in range(EXPERTS)
        )

    def forward(self, h):
        probabilities = F.softmax(self.router(h), dim=-1)
        weight, chosen = probabilities.topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(h)
        for number, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == number)
            if len(row):
                out = out.index_add(0, row, weight[row, slot].unsqueeze(1) * expert(h[row]))
        share = F.one_hot(chosen[:, 0], EXPERTS).float().mean(0)
        balance = EXPERTS * (share * probabilities.mean(0)).sum()
        return h + out, balance


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.moe, self.head = nn.Linear(64, 48), MoE(48), nn.Linear(48, 10)

    def forward(self, rows):
        h, balance = self.moe(F.gelu(self.stem(rows)))
        return self.head(h), balance


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(options.epochs):
    for rows in torch.randperm(len(x)).split(64):
        logits, balance = model(x[rows])
        loss = F.cross_entropy(logits, y[rows]) + 0.01 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (model(x_test)[0].argmax(1) == y_test).float().mean().item()
    print(f"epoch {epoch}: {accuracy:.3f} balance {balance.item():.3f}")
