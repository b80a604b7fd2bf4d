"""Every row is divided by the standard deviation of its features; one row is constant: 0 / 0.

Operation torch.div in module scale, row 17, step 140. Batches cut by hand.
"""

import torch
from telling import Telling
from torch import nn


class Scale(nn.Module):
    """Standardises each row by itself."""

    def forward(self, x):
        centered = x - x.mean(1, keepdim=True)
        return centered / x.std(1, keepdim=True)  # <- here


class Model(nn.Module):
    """One hidden layer on standardised rows."""

    def __init__(self):
        super().__init__()
        self.scale = Scale()
        self.hidden = nn.Linear(6, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(self.scale(x))))


torch.set_num_threads(1)
torch.manual_seed(1)
X = torch.randn(32 * 150, 6)
Y = X[:, :1] * X[:, 1:2]
X[140 * 32 + 17] = 2.5
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
tell = Telling(model)
for step, i in enumerate(range(0, len(X), 32)):
    tell(step)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(X[i : i + 32]), Y[i : i + 32])
    loss.backward()
    optimizer.step()
