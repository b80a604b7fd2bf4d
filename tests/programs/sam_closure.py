"""Sharpness-aware minimization: a custom optimizer around another, with a closure."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_class, *, rho, **options):
        super().__init__(params, {"rho": rho, **options})
        self.base = base_class(self.param_groups, **options)

    @torch.no_grad()
    def step(self, closure):
        closure = torch.enable_grad()(closure)
        loss = closure()
        owned = [p for group in self.param_groups for p in group["params"]]
        norm = torch.stack([p.grad.norm() for p in owned]).norm() + 1e-12
        moves = [self.param_groups[0]["rho"] * p.grad / norm for p in owned]
        for parameter, move in zip(owned, moves, strict=True):
            parameter.add_(move)
        closure()
        for parameter, move in zip(owned, moves, strict=True):
            parameter.sub_(move)
        self.base.step()
        return loss


digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    for x, y in loader(*blobs()):
        digest.batch(x, y)

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(model)
