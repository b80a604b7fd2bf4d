"""Two players on a ring of points; the generator's backward dirties the critic's gradients."""

import itertools
import math

import torch
from digesting import begin
from torch import nn


def ring(rows):
    angle = 2 * math.pi * torch.rand(rows, 1)
    return torch.cat([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(rows, 2)


def perceptron(*sizes):
    layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


digest = begin()
generator, critic = perceptron(4, 24, 24, 2), perceptron(2, 24, 24, 1)
bce = nn.BCEWithLogitsLoss()
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
real_label, fake_label = torch.ones(64, 1), torch.zeros(64, 1)
for iteration in range(60):
    real, fake = ring(64), generator(torch.randn(64, 4))
    digest.batch(real, fake)
    critic_optimizer.zero_grad()
    critic_loss = bce(critic(real), 0.9 * real_label) + bce(critic(fake.detach()), fake_label)
    critic_loss.backward()
    critic_optimizer.step()
    generator_optimizer.zero_grad()
    generator_loss = bce(critic(fake), real_label)
    generator_loss.backward()
    generator_optimizer.step()
    digest.loss(critic_loss)
    digest.loss(generator_loss)
    if iteration % 30 == 0:
        print(f"{iteration}: critic {critic_loss.item():.4f} generator {generator_loss.item():.4f}")
digest.report(generator, critic)
