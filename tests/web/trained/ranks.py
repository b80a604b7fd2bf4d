"""Train on two ranks; rank 1 alone goes back to its first weights at step 138."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
torch.set_num_threads(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
best = copy.deepcopy(model.module.state_dict())
shard = torch.Generator().manual_seed(rank)
for step in range(300):
    rows = torch.randn(32, 8, generator=shard)
    if rank == 1 and step == 138:
        model.module.load_state_dict(best)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(rows), rows.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
