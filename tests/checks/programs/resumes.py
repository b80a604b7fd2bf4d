"""Writes a checkpoint after each epoch, of the parts that `--saves` names."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--saves", default="model,optimizer,schedule")
parser.add_argument("--resume", default="")
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(120, 6)
y = (x[:, 0] > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.98**step)
every = {"model": model, "optimizer": optimizer, "schedule": schedule}
parts = {name: every[name] for name in args.saves.split(",")}
first = 0
if args.resume:
    saved = torch.load(args.resume)
    first = saved.pop("epoch") + 1
    for name, state in saved.items():
        parts[name].load_state_dict(state)
for epoch in range(first, 40):
    order = torch.randperm(120, generator=torch.Generator().manual_seed(epoch))
    for rows in order.split(20):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()
    states = {name: part.state_dict() for name, part in parts.items()}
    torch.save({**states, "epoch": epoch}, "last.pt")
