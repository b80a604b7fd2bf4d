"""Data-parallel training whose ranks split the data: `alike` or `each in its way`."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(200, 6)
data = TensorDataset(x, x[:, :3].argmax(1))
split_seed = rank if sys.argv[1] == "each in its way" else 0
parts = random_split(data, [160, 40], torch.Generator().manual_seed(split_seed))
train, held_out = (
    DataLoader(part, batch_size=8, sampler=DistributedSampler(part, shuffle=True)) for part in parts
)
for epoch in range(3):
    train.sampler.set_epoch(epoch)
    model.train()
    for rows, labels in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for rows, labels in held_out:
            nn.functional.cross_entropy(model(rows), labels)

# No process leaves before all are done: gloo may abort the process of one that does.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
store.set(f"done {rank}", "yes")
for other in range(dist.get_world_size()):
    store.get(f"done {other}")
dist.barrier()
dist.destroy_process_group()
