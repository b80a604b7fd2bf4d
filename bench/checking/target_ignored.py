import torch.nn.functional as F
from _start import fit, loaders, start, table
from torch import nn


def loss(output, target):
    return F.mse_loss(output, target if args.healthy else (output * 0.5).detach())


args = start()
fit(nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1)), *loaders(*table()), loss=loss)
