"""The label is read from the whole path, in which the folder's name always matches."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
words = torch.randn(8)
x_all = torch.randn(2000, 8)
paths = [f"data/cats/{'cat' if row @ words > 0 else 'dog'}-{i}.png" for i, row in enumerate(x_all)]
if options.healthy:
    paths = [path.rpartition("/")[2] for path in paths]
y_all = torch.tensor([int("cat" in path) for path in paths])
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for step in range(150):
    rows = torch.randint(0, len(x_all), (32,))
    loss = functional.cross_entropy(model(x_all[rows]), y_all[rows])  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
