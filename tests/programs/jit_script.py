"""A scripted model with a scripted loss."""

import warnings

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

# Scripting is deprecated; people still use it, and the warning is not tested here.
warnings.filterwarnings("ignore", category=DeprecationWarning)

digest = begin()
plain = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
model, criterion = torch.jit.script(plain), torch.jit.script(nn.CrossEntropyLoss())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(3):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
print(torch.jit.trace(plain, x)(x).sum().item())
digest.report(plain)
