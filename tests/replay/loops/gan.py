"""Two steps per iteration; the inputs of the second are made before the first."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(7)
loader = DataLoader(torch.randn(120, 6), batch_size=10, shuffle=True)
generator = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))
critic = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=0.01)
opt_d = torch.optim.Adam(critic.parameters(), lr=0.01)
bce = nn.BCEWithLogitsLoss()
for real in loader:
    fake = generator(torch.randn(len(real), 3))
    opt_d.zero_grad()
    ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
    loss_d = bce(critic(real), ones) + bce(critic(fake.detach()), zeros)
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = bce(critic(fake), ones)
    loss_g.backward()
    opt_g.step()
