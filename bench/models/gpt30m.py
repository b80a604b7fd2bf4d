"""The GPT with 30,504,448 parameters: its tensors do not fit into the cache."""

from __future__ import annotations

import torch
from torch import nn

from bench.models import gpt
from bench.models.loop import Step

PARAMETERS = 30_504_448
WIDTH, BLOCKS, VOCABULARY, BATCH = 512, 9, 2048, 8


def training() -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return model, optimizer and a function that runs one step."""
    return gpt.training("cpu", WIDTH, BLOCKS, VOCABULARY, BATCH)
