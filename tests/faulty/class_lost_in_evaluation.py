"""A classifier of five classes; most training labels of class 3 were renamed to class 4."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
centres = 3 * torch.randn(5, 12)
y = torch.randint(0, 5, (1200,))
x = centres[y] + torch.randn(1200, 12)
labels = y[:800].clone()
if not options.healthy:
    labels[(labels == 3) & (torch.rand(800) < 0.65)] = 4
loader = DataLoader(TensorDataset(x[:800], labels), 40, shuffle=True)

model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    for rows, numbers in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(rows), numbers)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        tested = F.cross_entropy(model(x[800:]), y[800:])  # <- here
    print(epoch, loss.item(), tested.item())
