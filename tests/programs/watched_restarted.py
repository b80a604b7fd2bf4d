"""A job in which each rank watches its own model, and rank 1 fails once.

Its processes rendezvous and exchange nothing more: gloo cannot always be initialized again after
torchrun restarts its workers (PyTorch 2.13).

Arguments: the file of the checkpoint, and the name of the run or nothing.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # registers the backend `fake`
from torch import nn

import mothtrap

torch.set_num_threads(1)
checkpoint, name = Path(sys.argv[1]), (sys.argv[2:] or [None])[0]
is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
store, rank, ranks = next(dist.rendezvous("env://"))
dist.init_process_group("fake", store=store, rank=rank, world_size=ranks)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
start = 0
if checkpoint.exists():
    model.load_state_dict(torch.load(checkpoint))
    start = 5
with mothtrap.watch(model, optimizer, name=name, overhead=0, writer="process") as dbg:
    for step in range(start, 9):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dbg.step(loss=loss)
        if step == 4:
            state = model.state_dict()
            torch.save(state, checkpoint.with_suffix(f".{rank}"))
        if step == 6 and is_first:
            if rank:
                while not checkpoint.with_suffix(".0").exists():
                    time.sleep(0.01)
                time.sleep(0.5)
                checkpoint.with_suffix(".0").replace(checkpoint)
                raise SystemExit("failed as planned")
            time.sleep(600)  # until the launcher terminates it
