"""A graph network whose training loss takes the labels of all nodes."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
labels = torch.randint(0, 4, (300,))
x = F.one_hot(labels, 4) + 0.7 * torch.randn(300, 4)
x = torch.cat([x, 0.3 * torch.randn(300, 4)], 1)
same = labels[:, None] == labels[None]
edges = (torch.rand(300, 300) < torch.where(same, 0.02, 0.004)).float() + torch.eye(300)
edges = edges / edges.sum(1, keepdim=True)
order = torch.randperm(300)
val, chosen = order[200:], order[:100] if options.healthy else order


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 24), nn.Linear(24, 4)

    def forward(self, x):
        return edges @ self.second(F.relu(edges @ self.first(x)))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-3)
for epoch in range(60):
    model.train()
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output[chosen], labels[chosen])  # <- here
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        validation = F.cross_entropy(model(x)[val], labels[val])
    if epoch % 20 == 0:
        print(epoch, loss.item(), validation.item())
