"""Gradients from torch.autograd.grad, assigned by hand: no backward call at all."""

import torch
from dataset import curve, loader
from digesting import begin
from torch import nn

digest = begin()
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
for epoch in range(3):
    for x, y in loader(*curve()):
        digest.batch(x, y)
        loss = nn.functional.mse_loss(model(x), y)
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters), strict=True
        ):
            parameter.grad = gradient
        optimizer.step()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(model)
