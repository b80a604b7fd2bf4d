"""The latent of a variational autoencoder is detached before the decoder.

The divergence still reaches the encoder, so every parameter has a gradient.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
        self.mean = nn.Linear(64, 8)
        self.log_variance = nn.Linear(64, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x):
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        if "--healthy" not in sys.argv:
            z = z.detach()  # <- here
        return self.decoder(z), mean, log_variance


data = torch.randn(1024, 8) @ torch.randn(8, 32)
model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(300):
    x = data[torch.randint(0, 1024, (64,))]
    made, mean, log_variance = model(x)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()
    loss = functional.mse_loss(made, x) + 1e-3 * divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
