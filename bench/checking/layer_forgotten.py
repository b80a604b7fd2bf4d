import torch.nn.functional as F
from _start import digits, fit, loaders, start
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        hidden = self.first(x)
        return self.head(F.relu(self.norm(hidden) if args.healthy else hidden))


args = start()
fit(Net(), *loaders(*digits()))
