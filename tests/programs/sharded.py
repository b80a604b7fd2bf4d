"""Training with sharded parameters; rank 0 writes the whole gradients.

Arguments: `fsdp2` (shards over all workers), `replicated` (replicas of shards, 4 workers)
or `tensor_parallel`; and the file to write.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

torch.set_num_threads(1)
variant, path = sys.argv[1], Path(sys.argv[2])
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
hidden = 8 if variant == "tensor_parallel" else 7  # tensor parallelism divides evenly
net = nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, 3))
draws = torch.Generator().manual_seed(rank)
if variant == "tensor_parallel":
    mesh = init_device_mesh("cpu", (world_size,), mesh_dim_names=("tp",))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    draws.manual_seed(0)  # all workers use every batch
else:
    shape = (2, world_size // 2) if variant == "replicated" else (world_size,)
    names = ("replicas", "shards")[-len(shape) :]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for module in (net[0], net[2], net):
        fully_shard(module, mesh=mesh)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
norms = []
for _ in range(3):
    x, y = torch.randn(8, 6, generator=draws), torch.randint(0, 3, (8,), generator=draws)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    norms.append({n: float(p.grad.full_tensor().norm()) for n, p in net.named_parameters()})
    optimizer.step()

store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
store.set(f"loss {rank}", str(loss.item()))
losses = [float(store.get(f"loss {other}")) for other in range(world_size)]
if rank == 0:
    path.write_text(json.dumps({"gradient_norms": norms, "last_losses": losses}))
dist.barrier()
dist.destroy_process_group()
