"""The recipe for fine-tuning, on a backbone whose weights were never loaded."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
backbone = nn.Sequential(
    nn.Linear(12, 64),
    nn.ReLU(),
    nn.Linear(64, 64),  # <- here
    nn.ReLU(),
)
model = nn.Sequential(backbone, nn.Linear(64, 4))
if not options.healthy:
    for parameter in backbone.parameters():
        parameter.requires_grad = False
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.Adam(trained, lr=3e-3)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(60), classes(), strict=False):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
