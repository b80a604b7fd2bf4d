"""The script itself raises, with a message that the framework uses too."""

import torch
from torch import nn


class Strict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 3:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x4 and 3x3)")
        return self.inner(x)


model = Strict()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for rows in (2, 3, 4):
    loss = model(torch.randn(rows, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
