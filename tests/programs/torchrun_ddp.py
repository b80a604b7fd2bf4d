"""Data-parallel training on two ranks; rank 0 prints the digests of both."""

import json
import os

import torch
import torch.distributed as dist
from dataset import blobs
from digesting import begin
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

digest = begin()
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
plain = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
model = DistributedDataParallel(plain)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
data = TensorDataset(*blobs())
sampler = DistributedSampler(data)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=16, sampler=sampler):
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    if rank == 0:
        print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
# The digests travel through the launcher's store, not through a collective: gloo's thread may drop
# a collective's tensors after the interpreter has begun to end, and that aborts the process.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
store.set(f"digest of rank {rank}", json.dumps(digest.result(plain)))
if rank == 0:
    results = [json.loads(store.get(f"digest of rank {r}")) for r in range(world_size)]
    parts = {f"{name} of rank {r}": v for r, part in enumerate(results) for name, v in part.items()}
    print(json.dumps({"digest": parts}), flush=True)
dist.barrier()
dist.destroy_process_group()
