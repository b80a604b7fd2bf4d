"""Two loops with different models: the step that is kept is in the second."""

import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(64, 4)
enc = nn.Linear(4, 4)
head = nn.Linear(4, 1)
opt = torch.optim.SGD(enc.parameters(), lr=0.1)
for i in range(0, 64, 16):
    loss = ((enc(X[i : i + 16]) - X[i : i + 16]) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
model = nn.Sequential(enc, head)
opt2 = torch.optim.Adam(model.parameters(), lr=0.01)
for i in range(0, 64, 8):
    loss = ((model(X[i : i + 8]) - X[i : i + 8].sum(1, keepdim=True)) ** 2).mean()
    opt2.zero_grad()
    loss.backward()
    opt2.step()
