import torch.nn.functional as F
from _start import digits, fit, loaders, start
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, 64)
        self.middle = nn.Linear(64, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        hidden = F.relu(self.encoder(x))
        if not args.healthy:
            hidden = hidden.detach()
        return self.head(F.relu(self.middle(hidden)))


args = start()
fit(Net(), *loaders(*digits()))
