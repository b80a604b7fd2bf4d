"""A recurrent net without bounds meets a sequence of 900 steps among sequences of 20.

Operation torch.nn.functional.linear in module recur, row 2, step 105.
"""

import torch
from telling import Telling
from torch import nn


class Recurrent(nn.Module):
    """A state that each step multiplies; rows that have ended keep theirs."""

    def __init__(self, width=12):
        super().__init__()
        self.enter = nn.Linear(3, width)
        self.recur = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, 1)
        with torch.no_grad():
            self.recur.weight.copy_(1.15 * torch.eye(width))

    def forward(self, x, lengths):
        state = torch.zeros(len(x), self.recur.out_features)
        for t in range(x.shape[1]):
            further = self.recur(state) + torch.relu(self.enter(x[:, t]))  # <- here
            state = torch.where((t < lengths).unsqueeze(1), further, state)
        return self.out(state / 100)


def batch(step):
    """Return sequences (6, longest, 3) and their lengths."""
    lengths = torch.randint(10, 20, (6,))
    if step == 105:
        lengths[2] = 900
    return torch.randn(6, int(lengths.max()), 3) * 0.3, lengths


torch.set_num_threads(1)
torch.manual_seed(8)
model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
tell = Telling(model)
for step in range(110):
    tell(step)
    x, lengths = batch(step)
    loss = ((model(x, lengths) - x[:, 0, :1]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
