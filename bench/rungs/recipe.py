"""A classifier of digits with a longer recipe: schedule, average of weights, class weights."""

import torch
import torch.nn.functional as F  # noqa: N812
from _start import digits, options, score
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

o = options(
    warm_up=0.0,
    average=0.0,
    weight=1.0,
    rare=1.0,
    merged=0.0,
    shrink=1.0,
    swapped=0.0,
    momentum=0.0,
    gamma=1.0,
    penalty=0.0,
)
x, y, x_test, y_test = digits()
if o.rare < 1:
    kept = (y < 5) | (torch.rand(len(y)) < o.rare)
    x, y = x[kept], y[kept]
if o.merged:
    y = torch.where((y == 3) & (torch.rand(len(y)) < o.merged), 8, y)
if o.swapped:
    order, moved = torch.arange(len(y)), torch.rand(len(y)) < o.swapped
    order[moved] = order[moved].roll(1)
    y = y[order]
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
with torch.no_grad():
    for part in model[::2]:
        part.weight.mul_(o.shrink)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
if o.momentum:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=o.momentum)
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
steps = o.warm_up * 12 * len(loader)


def rate(step):
    """Return the share of the learning rate in a step."""
    return min(1.0, (step + 1) / max(1.0, steps)) * o.gamma ** (step // len(loader))


schedule = LambdaLR(optimizer, rate)
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(o.average or 0.9))
weights = torch.ones(10)
weights[1] = o.weight
for epoch in range(12):
    model.train()
    for rows, labels in loader:
        loss = F.cross_entropy(model(rows), labels, weight=weights if o.weight > 1 else None)
        if o.penalty:
            loss = loss + o.penalty * sum(p.abs().sum() for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        averaged.update_parameters(model)
    tested = averaged if o.average else model
    tested.eval()
    with torch.no_grad():
        out = tested(x_test)
        print(epoch, loss.item(), F.cross_entropy(out, y_test).item())
        accuracy = (out.argmax(1) == y_test).float().mean()
score(accuracy)
