"""Attention over the positions of a sequence: its softmax runs over the batch."""

import torch
from data import arguments
from torch import nn

options = arguments()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 32)
        self.scores = nn.Linear(32, 1)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        values = torch.tanh(self.hidden(x))
        scores = self.scores(values).squeeze(-1)
        weights = torch.softmax(scores, dim=-1 if options.healthy else 0)  # <- here
        return self.head(torch.bmm(weights.unsqueeze(1), values).squeeze(1))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
marks = torch.randn(3, 8)
for step in range(120):
    labels = torch.randint(0, 3, (32,))
    x = 0.5 * torch.randn(32, 10, 8)
    x[torch.arange(32), torch.randint(0, 10, (32,))] += 2 * marks[labels]
    loss = nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
