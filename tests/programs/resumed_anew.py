"""Trains, saves a checkpoint, and continues from there when it is started again.

Arguments: the file of the checkpoint, and what the second start does: `well`, `forgets` to load
the weights, or `rescales` the data.
"""

import sys
from pathlib import Path

import torch
from torch import nn

checkpoint, how = Path(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
centers = 2 * torch.randn(3, 6)
if checkpoint.exists():
    state = torch.load(checkpoint)
    if how != "forgets":
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    if how == "rescales":
        centers = -centers
for _ in range(80):
    y = torch.randint(0, 3, (32,))
    x = centers[y] + torch.randn(32, 6)
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
