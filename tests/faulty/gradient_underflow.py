"""Mixed precision in float16 without a gradient scaler, and a loss in small units."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.MSELoss()
kind = torch.bfloat16 if options.healthy else torch.float16
for step, (x, y) in zip(range(120), curve(), strict=False):
    with torch.autocast("cpu", dtype=kind):
        prediction = model(x)
    loss = 1e-4 * criterion(prediction.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
