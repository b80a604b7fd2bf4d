"""A critic of images with a gradient penalty whose norm runs over the channels only."""

import torch
from data import arguments
from torch import nn

options = arguments()
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3 * 64), nn.Tanh())
critic = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(128, 1))
makes = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
judges = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))


def penalty(real, fake):
    share = torch.rand(len(real), 1, 1, 1)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    [gradients] = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    if options.healthy:
        gradients = gradients.flatten(1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


for step in range(120):
    real = torch.full((32, 3, 8, 8), -1.0)
    real[:, :, 2:6, 2:6] = torch.rand(32, 3, 1, 1)
    fake = generator(torch.randn(32, 8)).view(32, 3, 8, 8)
    distance = critic(fake.detach()).mean() - critic(real).mean()
    loss = distance + 10 * penalty(real, fake.detach())  # <- here
    judges.zero_grad()
    loss.backward()
    judges.step()
    if step % 4 == 3:
        makes.zero_grad()
        (-critic(generator(torch.randn(32, 8)).view(32, 3, 8, 8)).mean()).backward()
        makes.step()
    if step % 40 == 0:
        print(step, loss.item())
