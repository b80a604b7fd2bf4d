import torch
from _start import digits, start
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

args = start()
x, y = digits()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
seeds = (0, 0) if args.healthy else (0, 1)
inputs, labels = (
    DataLoader(TensorDataset(part), 32, shuffle=True, generator=torch.Generator().manual_seed(seed))
    for part, seed in zip((x, y), seeds, strict=True)
)
for epoch in range(10):
    for (pixels,), (digit,) in zip(inputs, labels, strict=True):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(pixels), digit)
        loss.backward()
        optimizer.step()
    print(f"{epoch}: {loss.item():.3f}")
