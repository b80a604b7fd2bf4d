"""A sequence of padding alone: softmax over keys that are all masked with -inf.

Operation torch.softmax in module attend, row 4, step 137. What is masked elsewhere is in order.
"""

import torch
from telling import Telling
from torch import nn


class Attend(nn.Module):
    """One query per sequence, over the keys that are no padding."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(8) * 0.1)

    def forward(self, x, padding):
        scores = (x @ self.query).masked_fill(padding, float("-inf"))
        weights = torch.softmax(scores, dim=-1)  # <- here
        return (weights.unsqueeze(-1) * x).sum(1)


class Model(nn.Module):
    """Embeds numbers, attends, regresses."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(2, 8)
        self.attend = Attend()
        self.out = nn.Linear(8, 1)

    def forward(self, x, padding):
        return self.out(self.attend(torch.tanh(self.enter(x)), padding))


def batches():
    """Yield 142 batches of 11 sequences, at most 7 long."""
    for number in range(142):
        lengths = torch.randint(1, 8, (11,))
        if number == 137:
            lengths[4] = 0
        yield torch.randn(11, 7, 2), torch.arange(7) >= lengths.unsqueeze(1)


torch.set_num_threads(1)
torch.manual_seed(16)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
tell = Telling(model)
for step, (x, padding) in enumerate(batches()):
    tell(step)
    loss = (model(x, padding) - x[:, 0].sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
