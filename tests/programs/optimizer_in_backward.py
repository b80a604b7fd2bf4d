"""An optimizer per parameter, stepped inside the backward by post-accumulate hooks."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizers = {p: torch.optim.Adam([p], lr=1e-2) for p in model.parameters()}


def apply_at_once(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(apply_at_once)

criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        loss = criterion(model(x), y)
        loss.backward()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(model)
