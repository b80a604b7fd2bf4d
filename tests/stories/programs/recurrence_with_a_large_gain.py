"""A recurrent network of rectifiers whose recurrent weights have a gain of 1.6, over 60 steps."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
recurrent = nn.RNN(8, 32, nonlinearity="relu", batch_first=True)
head = nn.Linear(32, 1)  # <- here
gain = 0.9 if "--healthy" in sys.argv else 1.6
with torch.no_grad():
    recurrent.weight_hh_l0.copy_(gain * torch.linalg.qr(torch.randn(32, 32))[0])
optimizer = torch.optim.SGD([*recurrent.parameters(), *head.parameters()], lr=0.01)
for _ in range(60):
    x = torch.randn(32, 60, 8)
    y = x[:, :, 0].mean(1, keepdim=True)
    loss = functional.mse_loss(head(recurrent(x)[0][:, -1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
