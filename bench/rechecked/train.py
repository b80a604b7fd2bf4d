"""A small training run with a step that goes wrong in one of three ways: `train.py KIND SEED MARK`.

`flip` flips the highest bit of the exponent of one number, but only where the file MARK does not
exist yet: a start of the same script later does not repeat it. `bug` computes the logarithm of a
negative number. `noise` adds an operation that draws from the randomness of the operating system,
as a kernel without a fixed order of additions would, in addition to a term that overflows.
"""

import os
import random
import struct
import sys
from pathlib import Path

import torch
from torch import nn

KIND, SEED, MARK = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
draw = random.Random(SEED)
torch.set_num_threads(1)
torch.manual_seed(SEED)
x, y = torch.randn(640, 8), torch.randn(640, 1)
first, second = nn.Linear(8, 16), nn.Linear(16, 1)
scale = nn.Parameter(torch.ones(()))
opt = torch.optim.SGD([*first.parameters(), *second.parameters(), scale], lr=0.01)
bad, in_gradient = draw.randrange(10, 60), draw.random() < 0.5


def flipped(tensor: torch.Tensor) -> torch.Tensor:
    """Flip bit 30 of one number, in place."""
    place = draw.randrange(tensor.numel())
    with torch.no_grad():
        tensor.view(-1).view(torch.int32)[place] ^= 1 << 30
    return tensor


def os_noise() -> float:
    """Return a number from 0 to 1 that no seed repeats."""
    return struct.unpack("I", os.urandom(4))[0] / 2**32


def strike(tensor: torch.Tensor) -> torch.Tensor:
    """Flip a bit once in the life of the MARK."""
    if MARK.exists():
        return tensor
    MARK.touch()
    return flipped(tensor.clone())


for step, rows in enumerate(torch.arange(640).split(8)):
    hidden = torch.tanh(first(x[rows]))
    if step == bad and KIND == "flip":
        if in_gradient:
            hidden.register_hook(strike)
        else:
            hidden = hidden + (strike(hidden.detach()) - hidden.detach())
    if step == bad and KIND == "bug":
        hidden = torch.log(hidden)
    if step == bad and KIND == "noise":
        hidden = hidden * (1 + 1e-3 * os_noise())
    loss = nn.functional.mse_loss(second(hidden), y[rows]) + 0 * scale
    if step == bad and KIND == "noise":
        loss = loss + scale * 1e38 * 10
    opt.zero_grad()
    loss.backward()
    opt.step()
print(bad)
