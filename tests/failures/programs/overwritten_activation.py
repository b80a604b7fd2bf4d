"""A sum in place destroys what the sigmoid needs for its gradient."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 4)
        self.outer = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.sigmoid(self.inner(x))
        h += 1
        return self.outer(h)


model = Gate()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss = model(torch.randn(3, 6)).mean()
loss.backward()
optimizer.step()
