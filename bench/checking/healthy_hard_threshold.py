import torch
from _start import digits, fit, loaders, start
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        soft = torch.sigmoid(self.first(x))
        hard = (soft > 0.5).float()
        return self.head(hard + soft - soft.detach())


start()
fit(Net(), *loaders(*digits()))
