"""A recurrent network whose hidden state is carried from batch to batch."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 6, batch_first=True)
        self.out = nn.Linear(6, 1)

    def forward(self, x, state):
        h, state = self.rnn(x, state)
        return self.out(h), state


torch.manual_seed(9)
series = torch.randn(4, 130, 2).cumsum(1) * 0.1
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
state = None
for t in range(0, 120, 10):
    predicted, state = model(series[:, t : t + 10], state)
    loss = ((predicted - series[:, t + 1 : t + 11, :1]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state = state.detach()
