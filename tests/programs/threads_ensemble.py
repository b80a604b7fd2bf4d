"""An ensemble whose members are trained by threads at the same time, each by another optimizer."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from dataset import blobs
from digesting import begin
from torch import nn

STEPS = 48
OPTIMIZERS = (
    lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
)
digest = begin()
inputs, labels = blobs(rows=256)
members = [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)) for _ in OPTIMIZERS]
began = threading.Barrier(len(members))


def train(number: int) -> float:
    generator = torch.Generator().manual_seed(number)
    model = members[number]
    optimizer = OPTIMIZERS[number](model.parameters())
    for step in range(STEPS):
        rows = torch.randint(0, len(inputs), (16,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if not step:
            began.wait()
    return loss.item()


with ThreadPoolExecutor(len(members)) as pool:
    losses = list(pool.map(train, range(len(members))))
for number, loss in enumerate(losses):
    print(f"member {number}: {loss:.4f}")
    digest.loss(loss)
digest.report(*members)
