"""A variational autoencoder on digits with KL warm-up."""

import torch
import torch.nn.functional as F
from _common import seeded
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

options = seeded(epochs=8)
pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16


class VAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.mean, self.log_var = nn.Linear(128, latent), nn.Linear(128, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        hidden = self.encoder(x)
        mean, log_var = self.mean(hidden), self.log_var(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        return self.decoder(z), mean, log_var


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(pixels, batch_size=64, shuffle=True, drop_last=True)
for epoch in range(options.epochs):
    beta = min(1.0, epoch / 4)
    for x in loader:
        logits, mean, log_var = model(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        kl = -0.5 * torch.sum(1 + log_var - mean**2 - log_var.exp()) / len(x)
        loss = reconstruction + beta * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {reconstruction.item():.2f} + {beta:.2f} x {kl.item():.2f}")
with torch.no_grad():
    print(torch.sigmoid(model.decoder(torch.randn(4, 8))).mean().item())
