"""Makes a model, and never trains it."""

from __future__ import annotations

import torch
from torch import nn

print(nn.Linear(2, 2)(torch.randn(2, 2)).shape)
