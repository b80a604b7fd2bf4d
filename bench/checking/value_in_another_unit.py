import torch.nn.functional as F
from _start import fit, loaders, start, table
from torch import nn

args = start()
x, y = table()
if not args.healthy:
    x[[17, 400], 3] *= 10_000.0
fit(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1)), *loaders(x, y), loss=F.mse_loss)
