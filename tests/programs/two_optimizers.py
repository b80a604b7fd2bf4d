"""Matrices by orthogonalised momentum, the rest by AdamW; both after one backward."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn


class OrthogonalMomentum(torch.optim.Optimizer):
    """Momentum whose matrix is pushed toward the nearest orthogonal one (Newton-Schulz)."""

    def __init__(self, params, *, lr, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                velocity = self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
                velocity.mul_(group["momentum"]).add_(parameter.grad)
                matrix = velocity / (velocity.norm() + 1e-7)
                for _ in range(5):
                    matrix = 1.5 * matrix - 0.5 * matrix @ matrix.T @ matrix
                parameter.add_(matrix, alpha=-group["lr"])


digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3))
matrices = [p for p in model.parameters() if p.ndim == 2]
vectors = [p for p in model.parameters() if p.ndim == 1]
optimizers = [OrthogonalMomentum(matrices, lr=0.02), torch.optim.AdamW(vectors, lr=1e-2)]
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        loss = criterion(model(x), y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(model)
