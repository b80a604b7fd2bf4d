"""A variational autoencoder of digits whose KL term may outweigh its reconstruction."""

import torch
import torch.nn.functional as F  # noqa: N812
from _start import batches, digits, options, score
from torch import nn


class Autoencoder(nn.Module):
    """Encode digits as eight numbers, and decode them."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.decoder(z), mean, log_var


o = options(kl=1.0)
x, _, x_test, _ = digits()
model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
chosen = batches(len(x), 50)
for step in range(500):
    batch = x[next(chosen)]
    out, mean, log_var = model(batch)
    reconstruction = F.mse_loss(out, batch, reduction="none").sum(1).mean()
    kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
    loss = reconstruction + 0.2 * o.kl * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        with torch.no_grad():
            error = F.mse_loss(model(x_test)[0], x_test)
            print(step, loss.item(), error.item())
score(error)
