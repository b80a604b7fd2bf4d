"""A small network learns from a larger one, whose dropout is still on."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

options = arguments()
teacher = nn.Sequential(  # <- here
    nn.Linear(12, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4)
)
batches = classes(spread=1.0)
optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
for _, (x, y) in zip(range(150), batches, strict=False):
    optimizer.zero_grad()
    F.cross_entropy(teacher(x), y).backward()
    optimizer.step()
del optimizer
teacher.requires_grad_(False)
if options.healthy:
    teacher.eval()
student = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for step, (x, y) in zip(range(200), batches, strict=False):
    out = student(x)
    soft = F.softmax(teacher(x) / 2, dim=1)
    loss = F.kl_div(F.log_softmax(out / 2, dim=1), soft, reduction="batchmean")
    loss = loss + 0.3 * F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
