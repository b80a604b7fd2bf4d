"""A variational autoencoder that takes the log variance for the variance."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(12, 8)
        self.decoder = nn.Linear(4, 12)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        deviation = torch.sqrt(log_variance)
        code = mean + deviation * torch.randn_like(mean)
        return torch.sigmoid(self.decoder(code))


model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.rand(16, 12)
    loss = functional.binary_cross_entropy(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
