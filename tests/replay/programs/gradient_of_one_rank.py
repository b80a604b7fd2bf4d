"""Two processes average gradients by hand; one of them has no valid row in a step: 0 / 0.

Operation torch.div on rank 1 alone, no single row, step 109.
"""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from telling import Telling
from torch import nn


def train(rank, port):
    """The loop of one process."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(17)
    model = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    data = torch.Generator().manual_seed(rank)
    tell = Telling(model) if rank == 0 else lambda step: None
    for step in range(115):
        tell(step)
        x = torch.randn(10, 4, generator=data)
        valid = torch.rand(10, generator=data) < (0.0 if (step, rank) == (109, 1) else 0.8)
        loss = (((model(x).squeeze(1) - x.sum(1)) ** 2) * valid).sum()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            parameter.grad.div_(valid.sum())  # <- here
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(train, args=(port,), nprocs=2)
