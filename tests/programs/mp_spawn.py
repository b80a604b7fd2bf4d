"""Two trainers started by torch.multiprocessing.spawn; the parent trains nothing."""

import json
import sys

import torch
import torch.multiprocessing as mp
from dataset import blobs, loader
from digesting import begin
from torch import nn


def train(rank, seed, results):
    digest = begin(seed=seed + rank)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for _epoch in range(3):
        for x, y in loader(*blobs()):
            digest.batch(x, y)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            digest.loss(loss)
    results.put((rank, loss.item(), digest.result(model)))


if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    mp.spawn(train, args=(seed, queue), nprocs=2)
    parts = {}
    for rank, loss, digest in sorted(queue.get() for _ in range(2)):
        print(f"rank {rank}: {loss:.4f}")
        parts |= {f"{name} of rank {rank}": value for name, value in digest.items()}
    print(json.dumps({"digest": parts}))
