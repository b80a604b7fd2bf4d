"""A small job of several processes that hangs, or is slow and healthy: job.py CASE RANKS SEED.

Each process writes the time at which it makes its last step to STALLS/<rank> (environment).
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CASE, RANKS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
STEPS = 14
BAD_STEP = 6 + SEED % 3
ODD = SEED % RANKS
MARKS = Path(os.environ.get("STALLS", "."))


def load(rank, step):
    if CASE == "slow_loader_hangs" and rank == ODD and step == BAD_STEP:
        time.sleep(600)  # HERE
    if CASE == "healthy_slow_loader":
        time.sleep(1.2)
    return torch.randn(8, 4)


def average(model, size):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= size


def evaluate():
    matrix, until_s = torch.randn(300, 300), time.monotonic() + 16
    while time.monotonic() < until_s:
        matrix = torch.tanh(matrix @ matrix)


def save(folder):
    until_s = time.monotonic() + 16
    while time.monotonic() < until_s:
        with open(folder / "checkpoint", "wb") as file:
            file.write(os.urandom(1 << 22))
            os.fsync(file.fileno())
        time.sleep(0.3)


def extra(rank, step, groups):
    odd, bad = rank == ODD, step == BAD_STEP
    if CASE == "barrier_in_condition" and odd and bad:
        dist.barrier()  # HERE
    if CASE == "lock" and odd and bad:
        import threading

        lock = threading.Lock()
        lock.acquire()
        lock.acquire()  # HERE
    if CASE == "two_groups" and bad:
        first, second = groups if rank % 2 == 0 else groups[::-1]
        dist.all_reduce(torch.ones(1), group=first)  # HERE
        dist.all_reduce(torch.ones(1), group=second)
    if CASE == "exception_kept" and odd and bad:
        try:
            raise RuntimeError("bad batch")
        except RuntimeError:
            time.sleep(600)  # HERE
    if CASE == "healthy_evaluation" and rank == 0 and bad:
        evaluate()
    if CASE == "healthy_gathers" and bad:
        for _ in range(80):
            time.sleep(0.2 if rank == 0 else 0.0)
            dist.all_reduce(torch.ones(1))
    if CASE == "healthy_checkpoint" and rank == 0 and bad:
        save(MARKS)


def work(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{MARKS}/store", rank=rank, world_size=RANKS
    )
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    wrapped = CASE.endswith("_ddp")
    if wrapped:
        model = torch.nn.parallel.DistributedDataParallel(model)
    groups = [dist.new_group(range(RANKS)) for _ in range(2)] if CASE == "two_groups" else []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    steps = BAD_STEP if CASE.startswith("last_batch_lacks") and rank == ODD else STEPS
    if CASE == "healthy_long_steps":
        steps = 6
    for step in range(steps):
        batch = load(rank, step)
        extra(rank, step, groups)
        if CASE == "healthy_long_steps":
            time.sleep(2.5)
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        missing = CASE == "missing_collective" and rank == ODD and step == BAD_STEP
        if not wrapped and not missing:
            average(model, RANKS)
        elif missing:
            dist.all_reduce(model.weight.grad)
        optimizer.step()
        (MARKS / str(rank)).write_text(str(time.time()))
    if CASE.startswith("last_batch_lacks") and rank == ODD:
        time.sleep(600)  # HERE
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(work, nprocs=RANKS, start_method="fork")
