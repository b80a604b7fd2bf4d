"""Two branches of a model whose images have different sizes."""

import torch
from torch import nn


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 2, 3, stride=2)
        self.up = nn.ConvTranspose2d(2, 2, 3, stride=2)
        self.same = nn.Conv2d(1, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide, narrow = self.same(x), self.up(self.down(x))
        return torch.cat([wide, narrow], dim=1)


model = Skip()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for size in (9, 9, 8):
    loss = model(torch.randn(2, 1, size, size)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
