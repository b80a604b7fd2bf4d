"""Parameters that are views of one memory, tied parameters, parametrizations, and user counters."""

import copy
import io

import torch
from telling import begin, tell
from torch import nn
from torch.nn.utils import parametrizations, parametrize


class Doubled(nn.Module):
    calls = 0

    def forward(self, weight):
        Doubled.calls += 1
        return weight * 2


begin()
flat = torch.zeros(8 * 8 + 8)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8), nn.Linear(8, 8))
flat[:64].view(8, 8).copy_(model[0].weight.detach())
model[0].weight = nn.Parameter(flat[:64].view(8, 8))
model[0].bias = nn.Parameter(flat[64:])
model[2].weight = model[0].weight
parametrize.register_parametrization(model[3], "weight", Doubled())
parametrizations.weight_norm(model[2], "bias", dim=0)
head = parametrizations.spectral_norm(nn.Linear(8, 3))
parameters = {*model.parameters(), *head.parameters()}
ordered = [p for p in (*model.parameters(), *head.parameters()) if p in parameters]
optimizer = torch.optim.SGD(ordered, lr=0.05, momentum=0.9, nesterov=True)
mean = copy.deepcopy(model)
for step in range(80):
    x, y = torch.randn(6, 16)[:, ::2].t().t(), torch.randint(3, (6,))
    x[1:3].mul_(2)
    x.as_strided((2, 4), (16, 2)).add_(1)
    loss = nn.functional.cross_entropy(head(model(x)), y)
    optimizer.zero_grad(set_to_none=step % 2 == 0)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for own, other in zip(mean.parameters(), model.parameters(), strict=True):
            own.lerp_(other, 0.1)
saved = io.BytesIO()
torch.save(model.state_dict(), saved)
versions = [p._version for p in ordered]
tell(model, mean, head, flat, calls=Doubled.calls, versions=versions, saved=len(saved.getvalue()))
