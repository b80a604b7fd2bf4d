import torch.nn.functional as F
from _start import digits, fit, loaders, start
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        hidden = F.relu(self.first(x))
        if not args.healthy:
            hidden = hidden.transpose(0, 1).reshape(x.shape[0], -1)
        return self.head(hidden.reshape(x.shape[0], -1))


args = start()
fit(Net(), *loaders(*digits(image=True)))
