"""Losses of torch.nn.functional, two of them added, and one under no_grad."""

import torch
import torch.nn.functional as F  # noqa: N812
from dataset import blobs, loader
from digesting import begin
from torch import nn

digest = begin()
x_all, y_all = blobs()
body, classify, rebuild = nn.Linear(8, 24), nn.Linear(24, 3), nn.Linear(24, 8)
model = nn.ModuleList([body, classify, rebuild])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for x, y in loader(x_all, y_all):
        digest.batch(x, y)
        hidden = torch.tanh(body(x))
        loss = F.cross_entropy(classify(hidden), y, label_smoothing=0.05)
        loss = loss + 0.1 * F.smooth_l1_loss(rebuild(hidden), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    with torch.no_grad():
        validation = F.nll_loss(F.log_softmax(classify(torch.tanh(body(x_all))), dim=1), y_all)
    digest.loss(validation)
    print(f"epoch {epoch}: {validation.item():.4f}")
digest.report(model)
