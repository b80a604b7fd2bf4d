"""A job of two processes with a silent fault, or its healthy twin: job.py FAULT TWIN DTYPE WORKERS.

TWIN is `faulty` or `healthy`, DTYPE `fp32` or `bf16`. With one worker, the job runs the same steps
in one process, on the whole batches.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

FAULT, TWIN, DTYPE, WORKERS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
BAD = TWIN == "faulty"
STEPS, ROWS, FEATURES, CLASSES = 24, 16, 8, 4
BY_HAND = FAULT in (
    *("all_reduce_missing", "frozen_on_one", "tied_on_one", "clipped_before_averaging"),
    *("weights_changed_on_one", "codes_of_one"),
)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Codes(nn.Module):
    """A buffer that follows the mean of its inputs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x):
        mean = x.detach().mean(0)
        if dist.is_initialized() and not (FAULT == "codes_of_one" and BAD):
            dist.all_reduce(mean)
            mean /= WORKERS
        self.mean.lerp_(mean.to(self.mean.dtype), 0.1)
        return x - 0.1 * self.mean


class Net(nn.Module):
    """Classifies rows; with `tied`, two layers share a weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 16), nn.Linear(16, 16)
        self.third, self.head = nn.Linear(16, 16), nn.Linear(16, CLASSES)
        extra = {"codes_of_one": Codes, "rank_in_eval": lambda: nn.Dropout(0.2)}
        extra["same_dropout"] = extra["rank_in_eval"]
        self.extra = extra.get(FAULT, nn.Identity)()
        if FAULT == "tied_on_one":
            self.third.weight = self.second.weight

    def forward(self, x):
        x = self.extra(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return self.head(torch.tanh(self.third(x)))


def batches(rank):
    """Yield this worker's rows of each batch."""
    draws = torch.Generator().manual_seed(1)
    teacher = torch.randn(FEATURES, CLASSES, generator=draws)
    for step in range(STEPS):
        rows = ROWS + 2 if FAULT == "uneven_last_batch" and BAD and step == STEPS // 2 else ROWS
        x = torch.randn(rows, FEATURES, generator=draws)
        y = (x @ teacher).argmax(1)
        first, second = slice(0, ROWS // 2), slice(ROWS // 2, None)
        if rows > ROWS:  # the batch is shared out by whole blocks
            first, second = slice(0, rows - 2), slice(rows - 2, None)
        part = slice(None) if WORKERS == 1 else (first, second)[rank]
        yield x[part].to(DTYPES[DTYPE]), y[part]


def average(model):
    """Average gradients without a wrapper."""
    if WORKERS == 1:
        return
    for name, parameter in model.named_parameters():
        if FAULT == "all_reduce_missing" and BAD and name.startswith("third"):
            continue
        if FAULT == "tied_on_one" and name == "third.weight":
            continue  # only one worker has it
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= WORKERS


def spoil_before(model, net, optimizer):
    """Plant the fault on the second worker before the first step."""
    if FAULT == "frozen_on_one":
        net.second.requires_grad_(False)
    if FAULT == "tied_on_one":
        net.third.weight = nn.Parameter(net.second.weight.detach().clone())
        optimizer.add_param_group({"params": [net.third.weight]})
    if FAULT == "rate_on_one":
        optimizer.param_groups[0]["lr"] *= 0.5
    if FAULT == "rank_in_eval":
        model.eval()


def spoil_between(net, rank, step):
    """Plant the fault on the second worker in the middle of the training."""
    if FAULT == "weights_changed_on_one" and rank == 1 and step == STEPS // 2:
        with torch.no_grad():
            net.third.weight.mul_(0.99)


def step_of(model, net, optimizer, x, y, rank):
    if not (FAULT == "zero_grad_missing" and BAD and rank == 1):
        optimizer.zero_grad()
    loss = cross_entropy(model(x).float(), y)
    if FAULT == "loss_times_workers" and BAD:
        loss = loss * WORKERS
    loss.backward()
    clips = FAULT == "clipped_before_averaging"
    if clips and BAD:
        nn.utils.clip_grad_norm_(net.parameters(), 0.05)
    if BY_HAND:
        average(net)
    if clips and not BAD:
        nn.utils.clip_grad_norm_(net.parameters(), 0.05)
    if FAULT == "gradient_divided_twice" and BAD:
        for parameter in net.parameters():
            parameter.grad /= WORKERS
    optimizer.step()


def train(rank):
    torch.manual_seed(0)
    net = Net().to(DTYPES[DTYPE])
    rate = 1.0 if FAULT == "clipped_before_averaging" else 0.1  # bfloat16 loses smaller updates
    optimizer = torch.optim.SGD(net.parameters(), rate)
    model = net if WORKERS == 1 or BY_HAND else DistributedDataParallel(net)
    if WORKERS > 1 and not (FAULT == "same_dropout" and BAD):
        torch.manual_seed(rank)
    if BAD and rank == 1:
        spoil_before(model, net, optimizer)
    for step, (x, y) in enumerate(batches(rank)):
        step_of(model, net, optimizer, x, y, rank)
        if BAD:
            spoil_between(net, rank, step)


def train_in_parts(rank):
    """Train one model whose layers are split over the workers."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, CLASSES))
    net.to(DTYPES[DTYPE])
    if WORKERS > 1:
        mesh = init_device_mesh("cpu", (WORKERS,), mesh_dim_names=("tp",))
        parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    draws = torch.Generator().manual_seed(rank if BAD else 0)
    for _ in range(STEPS):
        x = torch.randn(ROWS, FEATURES, generator=draws).to(DTYPES[DTYPE])
        optimizer.zero_grad()
        cross_entropy(net(x).float(), x[:, :CLASSES].argmax(1)).backward()
        optimizer.step()


def work(rank, folder):
    torch.set_num_threads(1)
    if WORKERS > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORKERS), LOCAL_RANK=str(rank))
        place = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=place, rank=rank, world_size=WORKERS)
    (train_in_parts if FAULT == "other_order_in_parts" else train)(rank)
    if WORKERS > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    folder = Path(os.environ.get("SILENT", ".")).resolve()
    if WORKERS == 1:
        work(0, folder)
    else:
        mp.start_processes(work, (folder,), nprocs=WORKERS, start_method="fork")
