"""A model in `DataParallel`, as in scripts for several devices; trained and evaluated."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

digest = begin()
features = nn.DataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU()))
model = nn.DataParallel(nn.Sequential(features, nn.Linear(32, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
inputs, labels = blobs(rows=320)
for epoch in range(3):
    for x, y in loader(inputs[:256], labels[:256]):
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    with torch.no_grad():
        held_out = criterion(model.module(inputs[256:]), labels[256:])
        print(f"epoch {epoch}: {held_out.item():.4f}")
digest.report(model)
