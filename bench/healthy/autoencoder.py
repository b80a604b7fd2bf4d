"""A denoising autoencoder: the target is the input, pixels in [0, 1], sigmoid and MSE."""

import torch
from _common import seeded
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=10)
pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
loader = DataLoader(TensorDataset(pixels), batch_size=64, shuffle=True)
model = nn.Sequential(
    nn.Linear(64, 48),
    nn.ReLU(),
    nn.Linear(48, 12),
    nn.ReLU(),
    nn.Linear(12, 48),
    nn.ReLU(),
    nn.Linear(48, 64),
    nn.Sigmoid(),
)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
mse = nn.MSELoss()
for epoch in range(options.epochs):
    total = 0.0
    for (x,) in loader:
        noisy = (x + 0.1 * torch.randn_like(x)).clamp(0, 1)
        loss = mse(model(noisy), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}")
