"""A classifier whose three blocks are one block, because a list is multiplied."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

options = arguments()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 32)
        self.blocks = nn.ModuleList([Block(32)] * 3)  # <- here
        if options.healthy:
            self.blocks = nn.ModuleList([Block(32) for _ in range(3)])
        self.last = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        for block in self.blocks:
            x = block(x)
        return self.last(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step, (x, y) in zip(range(100), classes(spread=2.0), strict=False):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
