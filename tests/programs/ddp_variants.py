"""Data-parallel training: `healthy`, `bypassed` (the inner model is called), `drifting`,
`shared` (all ranks draw the same batches), or `unused` (no loss uses a parameter)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
variant = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
if variant == "unused":
    net[0].register_parameter("spare", nn.Parameter(torch.zeros(3)))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draws = torch.Generator().manual_seed(0 if variant == "shared" else rank)
for step in range(10):
    x, y = torch.randn(8, 6, generator=draws), torch.randint(0, 3, (8,), generator=draws)
    called = net if variant == "bypassed" else model
    optimizer.zero_grad()
    nn.functional.cross_entropy(called(x), y).backward()
    optimizer.step()
    if variant == "drifting" and step == 4 and rank == 1:
        with torch.no_grad():
            net[2].weight += 1e-4
    with torch.no_grad():
        net(x)  # an evaluation of the inner model is no mistake

# No process leaves before all are done: gloo may abort the process of one that does.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
store.set(f"done {rank}", "yes")
for other in range(dist.get_world_size()):
    store.get(f"done {other}")
dist.barrier()
dist.destroy_process_group()
