"""The residual network on fresh batches of 64 images, from a loader that shuffles."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bench.models.loop import Step, step_of, without_end
from bench.models.resnet import CLASSES, ResNet

BATCH, IMAGES = 64, 2048


def training() -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return model, optimizer and a function that runs one step."""
    torch.manual_seed(0)
    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(IMAGES, 3, 32, 32), torch.randint(0, CLASSES, (IMAGES,))
    data = TensorDataset(images, labels)
    batches = without_end(DataLoader(data, batch_size=BATCH, shuffle=True))

    def loss_of() -> torch.Tensor:
        x_BCHW, y_B = next(batches)
        return functional.cross_entropy(model(x_BCHW), y_B)

    return model, optimizer, step_of(optimizer, loss_of)
