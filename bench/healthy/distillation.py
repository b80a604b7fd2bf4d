"""A student learns from the softened outputs of a teacher and from the labels."""

import torch
import torch.nn.functional as F
from _common import digits, seeded
from torch import nn

options = seeded()
x, y, x_test, y_test = digits()
teacher = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
TEMPERATURE, ALPHA = 3.0, 0.7

optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-3, weight_decay=1e-4)
for _ in range(6):
    for rows in torch.randperm(len(x)).split(64):
        optimizer.zero_grad()
        F.cross_entropy(teacher(x[rows]), y[rows]).backward()
        optimizer.step()
teacher.eval()
teacher.requires_grad_(False)

optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for epoch in range(8):
    student.train()
    for rows in torch.randperm(len(x)).split(64):
        with torch.no_grad():
            soft = F.softmax(teacher(x[rows]) / TEMPERATURE, dim=1)
        logits = student(x[rows])
        kd = F.kl_div(F.log_softmax(logits / TEMPERATURE, dim=1), soft, reduction="batchmean")
        loss = ALPHA * TEMPERATURE**2 * kd + (1 - ALPHA) * F.cross_entropy(logits, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    student.eval()
    with torch.no_grad():
        print(epoch, (student(x_test).argmax(1) == y_test).float().mean().item())
