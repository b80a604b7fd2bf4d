import torch
import torch.nn.functional as F
from _start import fit, loaders, start, table
from torch import nn


class Spread(nn.Module):
    def forward(self, x):
        if args.healthy:
            return x.var(1, keepdim=True, unbiased=False)
        x = x + 3000.0
        return (x**2).mean(1, keepdim=True) - x.mean(1, keepdim=True) ** 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.spread, self.head = nn.Linear(12, 16), Spread(), nn.Linear(1, 1)

    def forward(self, x):
        return self.head(self.spread(self.first(x)))


args = start()
torch.set_default_dtype(torch.float32)
fit(Net(), *loaders(*table()), loss=F.mse_loss)
