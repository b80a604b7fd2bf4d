"""A teacher without gradients is called before the model that is trained."""

import torch
from common import STEPS, Log, batch
from torch import nn

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
teacher = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
model = nn.Sequential(Log(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(STEPS):
    x, _ = batch(step, generator)
    with torch.no_grad():
        wanted = teacher(x).softmax(dim=1)
    optimizer.zero_grad()
    nn.functional.kl_div(model(x).log_softmax(dim=1), wanted).backward()
    optimizer.step()
