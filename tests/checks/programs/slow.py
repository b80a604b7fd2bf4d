"""Needs longer for its first step than a check has."""

from __future__ import annotations

import threading

import torch
from torch import nn

model = nn.Linear(6, 2)
threading.Event().wait(30.0)
model(torch.randn(8, 6)).sum().backward()
