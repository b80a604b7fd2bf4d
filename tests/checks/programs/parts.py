"""Trains a network of named layers for some epochs; `--fault` plants one outside of the steps."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
args = parser.parse_args()
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(nn.functional.relu(self.body(x)))


class Rows(TensorDataset):
    def __getitem__(self, index):
        if args.fault == "row" and index == 390:
            raise ValueError("row 390 cannot be read")
        return super().__getitem__(index)


def loss_of(scores, labels):
    if args.fault == "loss":
        scores = scores.detach() + 0 * scores
    return nn.functional.cross_entropy(scores, labels)


x = torch.randn(400, 6)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0)
train, held_out = DataLoader(Rows(x, y), 20), DataLoader(TensorDataset(x[:80], y[:80]), 20)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(50):
    model.train()
    for rows, labels in train:
        optimizer.zero_grad()
        loss_of(model(rows), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(rows).argmax(1) == labels).sum() for rows, labels in held_out)
    if args.fault == "epoch" and epoch == 1:
        torch.save(model.state_dict(), "missing/" + {}["folder"])
    torch.save(model.state_dict(), f"epoch-{epoch}.pt")
