"""A GAN on a ring of Gaussians: two optimizers, the usual detach, non-saturating loss."""

import math

import torch
from _common import seeded
from torch import nn

options = seeded(steps=500)
generator = nn.Sequential(
    nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
)
discriminator = nn.Sequential(
    nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
)
opt_g = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=5e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()


def real_batch(n=128):
    angle = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.1 * torch.randn(n, 2)


for step in range(options.steps):
    real = real_batch()
    fake = generator(torch.randn(128, 8))
    d_real = discriminator(real)
    d_fake = discriminator(fake.detach())
    loss_d = bce(d_real, torch.ones_like(d_real)) + bce(d_fake, torch.zeros_like(d_fake))
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()

    d_fake = discriminator(fake)
    loss_g = bce(d_fake, torch.ones_like(d_fake))
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    if step % 100 == 0:
        print(f"{step}: D {loss_d.item():.3f} G {loss_g.item():.3f}")
