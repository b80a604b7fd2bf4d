"""The state of a recurrent network is carried from step to step with its graph."""

import torch
from torch import nn

cell = nn.RNNCell(3, 4)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
state = torch.zeros(2, 4)
for _ in range(3):
    state = cell(torch.randn(2, 3), state)
    loss = state.square().mean()
    optimizer.zero_grad()
    loss.backward()
