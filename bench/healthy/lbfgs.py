"""Logistic regression on the whole data with L-BFGS and a strong-Wolfe line search."""

import torch
from _common import digits, seeded
from torch import nn

options = seeded(iterations=25)
x, y, x_test, y_test = digits()
model = nn.Linear(64, 10)
optimizer = torch.optim.LBFGS(
    model.parameters(), lr=1.0, max_iter=10, line_search_fn="strong_wolfe"
)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y) + 1e-3 * model.weight.pow(2).sum()
    loss.backward()
    return loss


for iteration in range(options.iterations):
    loss = optimizer.step(closure)
    if iteration % 5 == 0:
        print(iteration, loss.item())
with torch.no_grad():
    print("test accuracy", (model(x_test).argmax(1) == y_test).float().mean().item())
