import torch
import torch.nn.functional as F
from _start import fit, loaders, start
from torch import nn

args = start()
x = torch.randn(1200, 8)
y = x @ torch.randn(8, 1) + 0.3 * torch.randn(1200, 1)
if not args.healthy:
    x = x * torch.tensor([1.0, 0.01, 1.0, 0.01, 1.0, 0.01, 1.0, 0.01])
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
fit(model, *loaders(x, y), loss=F.mse_loss, optimizer=optimizer)
