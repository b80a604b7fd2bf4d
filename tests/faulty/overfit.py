"""A large network memorizes forty noisy rows; the healthy one is small and has more rows."""

import torch
from data import arguments
from torch import nn

options = arguments()
rows = 600 if options.healthy else 40
direction = torch.randn(10, 1) / 10**0.5
x = torch.randn(rows + 200, 10)
y = x @ direction + 0.5 * torch.randn(rows + 200, 1)
x_train, y_train, x_val, y_val = x[:rows], y[:rows], x[rows:], y[rows:]
width = 8 if options.healthy else 256
model = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()


def evaluate():
    model.eval()
    with torch.no_grad():
        loss = criterion(model(x_val), y_val)  # <- here
    model.train()
    return loss.item()


batch = rows // 5
for epoch in range(40):
    for rows_of_batch in torch.randperm(rows).split(batch):
        optimizer.zero_grad()
        loss = criterion(model(x_train[rows_of_batch]), y_train[rows_of_batch])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), evaluate())
