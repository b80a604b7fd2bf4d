import torch.nn.functional as F
from _start import digits, fit, loaders, start
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8 if args.healthy else 1, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        hidden = F.relu(self.first(x))
        hidden = F.relu(self.second(hidden if args.healthy else x))
        return self.head(hidden.mean((2, 3)))


args = start()
fit(Net(), *loaders(*digits(image=True)))
