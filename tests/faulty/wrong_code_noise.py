"""A variational autoencoder that multiplies its noise by the variance."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(48, 4), nn.Linear(48, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 16), nn.Sigmoid())

    def forward(self, x):
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        scale = torch.exp(0.5 * log_variance) if options.healthy else torch.exp(log_variance)
        code = mean + scale * torch.randn_like(mean)
        return self.decoder(code), mean, log_variance


model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
basis = torch.randn(3, 16)
for step in range(160):
    x = torch.sigmoid(3 * torch.randn(64, 3) @ basis)
    out, mean, log_variance = model(x)
    reconstruction = F.binary_cross_entropy(out, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    loss = reconstruction + kl  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
