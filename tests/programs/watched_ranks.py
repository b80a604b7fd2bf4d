"""Data-parallel training in which each rank watches its own model: `healthy`, `drifting`,
`dying` (rank 1 is killed) or `named` (each rank names its run)."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import mothtrap

torch.set_num_threads(1)
variant = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draws = torch.Generator().manual_seed(rank)
name = f"rank-{rank}" if variant == "named" else None
with mothtrap.watch(model, optimizer, name=name, overhead=0) as dbg:
    for step in range(10):
        x, y = torch.randn(8, 6, generator=draws), torch.randint(0, 3, (8,), generator=draws)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dbg.step(loss=loss)
        if variant == "drifting" and step == 4 and rank == 1:
            with torch.no_grad():
                model.module[2].weight += 1e-4
        if variant == "dying" and step == 4 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
dist.destroy_process_group()
