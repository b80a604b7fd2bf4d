"""Gives a layer an input of another width."""

from __future__ import annotations

import torch
from torch import nn

nn.Linear(6, 2)(torch.randn(8, 5))
