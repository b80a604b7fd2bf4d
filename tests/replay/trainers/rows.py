"""Rows of which one makes a logarithm infinite, and what the programs compute of them.

Operation torch.log; the weight of it falls with each step, and it begins in the third epoch, both
by the counters of the trainer.
"""

import torch
from torch import nn

BAD, EPOCHS, SIZE = 61, 4, 8

torch.set_num_threads(1)


def rows():
    """Return inputs and targets; row 61 of them holds a zero."""
    torch.manual_seed(0)
    x = torch.randn(128, 6)
    y = x.sum(1, keepdim=True)
    x[BAD, 0] = 0.0  # a sensor that was off
    return x, y


def network():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
