"""A training whose batches are divided among as many ranks as there are."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

STEPS, ROWS = 12, 16


def main(*variants):
    other = "other" in variants
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(STEPS * ROWS, 8, generator=generator)
    if other:
        features[7 * ROWS + 3] *= 1.5
    data = TensorDataset(features, torch.arange(STEPS * ROWS) % 3)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    if world > 1:
        dist.init_process_group("gloo")
        model = model if "by_hand" in variants else DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    own = Subset(data, range(rank, STEPS * ROWS, world))
    for x, y in DataLoader(own, ROWS // world):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        (loss * world if "summed" in variants else loss).backward()
        if "clipped" in variants:
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        if "by_hand" in variants:
            for parameter in model.parameters() if world > 1 else ():
                dist.all_reduce(parameter.grad)
                parameter.grad /= world
        optimizer.step()
    if world > 1:
        dist.destroy_process_group()
    return model


if __name__ == "__main__":
    # Kept to the end: torch waits for gloo's threads when it frees the model, and holds what they
    # may be waiting for.
    kept = main(*sys.argv[1:])
