"""Two workers; rank 1 is killed once both have stored steps. Argument: the run's attempt."""

import itertools
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
attempt = Path(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(6, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in itertools.count():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.arange(8) % 3).backward()
    optimizer.step()
    files = [attempt / f"w{r}" / "events-00000000.arrow" for r in range(2)]
    # A few steps after the first were stored, and after the launcher had time to see both.
    stored = all(file.exists() and file.stat().st_size > 60_000 for file in files)
    if rank == 1 and stored:
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 20_000:
        raise SystemExit("no step was ever stored")
