"""The rows of the batch are drawn once, before the loop."""

import torch
from data import arguments
from torch import nn

options = arguments()
x = torch.randn(600, 10)
y = torch.tanh(x @ torch.randn(10, 1)) + 0.1 * torch.randn(600, 1)
x, y, x_test, y_test = x[:500], y[:500], x[500:], y[500:]
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
rows = torch.randint(len(x), (32,))
for step in range(200):
    if options.healthy:
        rows = torch.randint(len(x), (32,))
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])  # <- here
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        with torch.no_grad():
            print(step, loss.item(), nn.functional.mse_loss(model(x_test), y_test).item())
