"""A part of the model was never given memory."""

import torch
from torch import nn

body = nn.Linear(6, 4)
with torch.device("meta"):
    head = nn.Linear(4, 1)
model = nn.Sequential()
model.add_module("body", body)
model.add_module("head", head)
optimizer = torch.optim.SGD(body.parameters(), lr=0.01)
loss = model(torch.randn(3, 6)).square().mean()
loss.backward()
optimizer.step()
