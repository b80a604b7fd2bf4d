"""An autoencoder with a detached penalty on its codes: it changes the loss and nothing else."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
encoder = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 6))
decoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 12))
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)
mixing = torch.randn(4, 12)
for step in range(200):
    x = torch.randn(64, 4) @ mixing + 0.1 * torch.randn(64, 12)
    code = encoder(x)
    reconstruction = F.mse_loss(decoder(code), x)
    penalty = (code if options.healthy else code.detach()).abs().mean()
    loss = reconstruction + 0.2 * penalty  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
