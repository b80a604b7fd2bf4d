"""Fine-tuning: a backbone trained on one task is frozen, a new head learns another."""

import torch
import torch.nn.functional as F
from _common import digits, seeded
from torch import nn

options = seeded()
x, y, x_test, y_test = digits()
backbone = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
head = nn.Linear(64, 10)

pretraining = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=1e-3)
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(head(backbone(x[rows])), y[rows])
        pretraining.zero_grad()
        loss.backward()
        pretraining.step()
del pretraining

for parameter in backbone.parameters():
    parameter.requires_grad = False
backbone.eval()
model = nn.Sequential(backbone, nn.Linear(64, 2))
optimizer = torch.optim.AdamW(model[1].parameters(), lr=5e-3)
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(model(x[rows]), y[rows] % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test % 2).float().mean().item()
    print(f"epoch {epoch}: odd or even, accuracy {accuracy:.3f}")
