"""Ranks without a wrapper: `apart` (nothing is exchanged), `averaged` (gradients), `seeded` (the
same, but each rank has its own initial weights), or `local` (weights, every fifth step)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
variant = sys.argv[1]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank if variant == "seeded" else 0)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
draws = torch.Generator().manual_seed(rank)
for step in range(40):
    x, y = torch.randn(8, 6, generator=draws), torch.randint(0, 3, (8,), generator=draws)
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    if variant in ("averaged", "seeded"):
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= size
    optimizer.step()
    if variant == "local" and step % 5 == 4:
        for parameter in net.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= size

# No process leaves before all are done: gloo may abort the process of one that does.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
store.set(f"done {rank}", "yes")
for other in range(size):
    store.get(f"done {other}")
dist.barrier()
dist.destroy_process_group()
