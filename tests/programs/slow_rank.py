"""Two workers, one of which loads its data slowly; started by torchrun."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
torch.set_num_threads(1)
net = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(170):
    if rank == 1 and "slow" in sys.argv:
        time.sleep(0.02)
    inputs = torch.randn(16, 8)
    loss = nn.functional.mse_loss(net(inputs), inputs.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
