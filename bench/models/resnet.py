"""A residual network of 2,866,890 parameters for images of 32 x 32 pixels."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

from bench.models.loop import Step, step_of

WIDTHS, BATCH, CLASSES = (64, 128, 256), 4, 10


class Block(nn.Module):
    """Two convolutions with batch norm and a residual connection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1, self.act1 = nn.BatchNorm2d(outputs), nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2, self.act2 = nn.BatchNorm2d(outputs), nn.ReLU()
        self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x_BCHW: torch.Tensor) -> torch.Tensor:
        inner = self.act1(self.norm1(self.conv1(x_BCHW)))
        return self.act2(self.norm2(self.conv2(inner)) + self.around(x_BCHW))


class ResNet(nn.Module):
    """Two blocks for each width, the second half as large in each direction."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False)
        blocks, inputs = [], WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            blocks += [Block(inputs, width, 1 + (stage > 0)), Block(width, width, 1)]
            inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, CLASSES)

    def forward(self, x_BCHW: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x_BCHW)).mean(dim=(2, 3)))


def training() -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return model, optimizer and a function that runs one step."""
    torch.manual_seed(0)
    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(0, CLASSES, (BATCH,))

    def loss_of() -> torch.Tensor:
        return functional.cross_entropy(model(images), labels)

    return model, optimizer, step_of(optimizer, loss_of)
