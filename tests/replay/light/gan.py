"""Two optimizers take turns: an iteration is two steps, and the discriminator's goes bad."""

import torch
from common import BAD, STEPS, Log, batch
from torch import nn

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
maker = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6), nn.Softplus())
judge = nn.Sequential(Log(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
of_maker = torch.optim.SGD(maker.parameters(), lr=0.01)
of_judge = torch.optim.SGD(judge.parameters(), lr=0.01)
for iteration in range(STEPS // 2):
    x, _ = batch(BAD if 2 * iteration == BAD - 1 else -1, generator)
    of_judge.zero_grad()
    fake = maker(torch.randn(8, 4)).detach() + 0.01
    (judge(fake) - judge(x)).mean().backward()
    of_judge.step()
    of_maker.zero_grad()
    judge(maker(torch.randn(8, 4)) + 0.01).mean().backward()
    of_maker.step()
