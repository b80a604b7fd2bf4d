import torch.nn.functional as F
from _start import fit, loaders, start, table
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12 if args.healthy else 8, 32)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(F.relu(self.first(x if args.healthy else x[:, :8])))


args = start()
fit(Net(), *loaders(*table()), loss=F.mse_loss)
