"""Fails once after its checkpoint, and continues from there when it is started again.

Arguments: `weights` (loads what it saved) or `optimizer` (loads it and changes the weights), the
file of the checkpoint, and a file that marks the first failure.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

torch.set_num_threads(1)
how, checkpoint, failed = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
rank, workers = os.environ.get("RANK", "0"), int(os.environ.get("WORLD_SIZE", "1"))
checkpoint, is_first = checkpoint.with_suffix(f".{rank}"), not failed.exists()
torch.manual_seed(int(rank))
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
kind = torch.optim.Adam if how == "optimizer" else torch.optim.SGD
optimizer = kind(net.parameters(), lr=0.1)
start = 0
if checkpoint.exists():
    state = torch.load(checkpoint)
    net.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["step"]
    if how == "optimizer":
        with torch.no_grad():
            net[0].bias += 1.0
for step in range(start, 9):
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    if step % 2:
        with torch.no_grad():
            net(x)
    if step == 4:
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
        draft = checkpoint.with_suffix(f".{rank}.draft")
        torch.save(state, draft)
        draft.replace(checkpoint)
    if step == 6 and is_first:
        if rank != "0":
            time.sleep(600)  # until the launcher terminates it
        while not all(checkpoint.with_suffix(f".{each}").exists() for each in range(workers)):
            time.sleep(0.01)
        failed.touch()
        time.sleep(1)  # what the others have recorded is written in parallel with their training
        raise SystemExit("failed as planned")
