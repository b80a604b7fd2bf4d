"""Two ranks, one of which meets a bad batch; each prints the steps it made and its weights.

`loss`: the loss of rank 1 is NaN once, its gradients are sound. `gradient`: a gradient of rank 1 is
corrupted after the averaging. `sound`: nothing is wrong. `join`: rank 1 has fewer batches and uses
`join`. `alone`: rank 1 has fewer batches and no wrapper.
"""

import hashlib
import math
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

kind = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
model = plain if kind == "alone" else DistributedDataParallel(plain)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(rank)
uneven = kind in ("join", "alone")
batches = [torch.randn(4, 6) for _ in range(5 if uneven and rank else 8)]


def train():
    for step, x in enumerate(batches):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), torch.arange(4) % 3)
        if (kind, rank, step) == ("loss", 1, 3):
            loss = loss + math.inf  # whose gradient is sound
        loss.backward()
        if (kind, rank, step) == ("gradient", 1, 3):
            plain[0].weight.grad[0, 0] = math.nan
        optimizer.step()


if kind == "join":
    with model.join():
        train()
else:
    train()
weights = b"".join(p.detach().numpy().tobytes() for p in plain.parameters())
applied = int(optimizer.state[plain[0].weight]["step"])
told = f"rank {rank} applied {applied} {hashlib.sha256(weights).hexdigest()[:12]}\n"
# in one write: `print`, unbuffered, lets another rank write into its line
os.write(1, told.encode())
dist.barrier()
dist.destroy_process_group()
