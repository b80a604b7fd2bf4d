"""Every parameter is set to 0 "for a neutral start", the weights as well as the biases."""

import torch
from data import arguments, classes
from torch import nn


def start_neutral(model):
    for name, parameter in model.named_parameters():
        if not options.healthy or name.endswith("bias"):
            nn.init.zeros_(parameter)


options = arguments()
model = nn.Sequential(
    nn.Linear(12, 32),  # <- here
    nn.Tanh(),
    nn.Linear(32, 16),
    nn.Tanh(),
    nn.Linear(16, 4),
)
start_neutral(model)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step, (x, y) in zip(range(300), classes(), strict=False):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
