"""Three micro-batches a step, with dropout; gradients are set to zero after the step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
loader = DataLoader(
    TensorDataset(torch.randn(160, 4), torch.randn(160, 2)), batch_size=4, shuffle=True
)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for number, (x, y) in enumerate(loader):
    loss = (model(x) - y).abs().mean() / 3
    loss.backward()
    if number % 3 == 2:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
