"""A network of sigmoids or with batch normalization, trained by SGD with momentum."""

import torch
import torch.nn.functional as F  # noqa: N812
from _start import batches, digits, options, score
from torch import nn

o = options(depth=0, clip=1e9, micro=1, stats=0.1, repeated=0.0, stale=1, few=50)
x, y, x_test, y_test = digits()
depth = round(o.depth)
layers, width = [], 64
for _ in range(depth or 2):
    layers.append(nn.Linear(width, 48))
    layers.append(nn.Sigmoid() if depth else nn.BatchNorm1d(48, momentum=o.stats))
    if not depth:
        layers.append(nn.ReLU())
    width = 48
model = nn.Sequential(*layers, nn.Linear(width, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
chosen = batches(len(x), round(o.few))
batch = next(chosen)
for step in range(350):
    if torch.rand(()) >= o.repeated:
        batch = next(chosen)
    model.train()
    if step % round(o.stale) == 0:
        optimizer.zero_grad()
    for _ in range(round(o.micro)):
        loss = F.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        if o.micro > 1:
            batch = next(chosen)
    if o.clip < 1e9:
        nn.utils.clip_grad_norm_(model.parameters(), o.clip)
    optimizer.step()
    if step % 35 == 34:
        model.eval()
        with torch.no_grad():
            out = model(x_test)
            print(step, loss.item(), F.cross_entropy(out, y_test).item())
            accuracy = (out.argmax(1) == y_test).float().mean()
score(accuracy)
