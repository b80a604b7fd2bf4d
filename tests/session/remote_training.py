"""Train as many steps as each line of standard input requests, until `end`; print them.

A line of output is a step's loss, and the bytes of a weight before that step, in hex.
"""

import sys

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
print("ready", flush=True)
for line in iter(sys.stdin.readline, "end\n"):
    for _ in range(int(line)):
        x = torch.randn(16, 8)
        loss = nn.functional.mse_loss(model(x), x[:, :1].sin())
        weight = model[0].weight.detach().numpy().tobytes().hex()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), weight, flush=True)
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}), flush=True)
