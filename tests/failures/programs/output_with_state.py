"""An LSTM returns more than its output."""

import torch
from torch import nn

model = nn.Sequential()
model.add_module("rnn", nn.LSTM(3, 4))
model.add_module("out", nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss = model(torch.randn(5, 2, 3)).mean()
loss.backward()
optimizer.step()
