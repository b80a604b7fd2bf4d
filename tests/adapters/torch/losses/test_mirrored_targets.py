from __future__ import annotations

import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.targets import MirroredTargets

STEPS = 64


def observed(*, apart: bool, classes: bool = False, axis: int = -1) -> list[MirroredTargets]:
    """Train on boxes that are mirrored at random, with or without their images."""
    torch.manual_seed(0)
    masks = torch.zeros(128, 1, 16, 16)
    for mask in masks:
        row, column = torch.randint(0, 12, (2,))
        mask[:, row : row + 4, column : column + 4] = 1
    model = nn.Conv2d(1, 2 if classes else 1, 3, padding=1)
    with watched() as seen:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(STEPS):
            mask = masks[torch.randint(0, 128, (16,))]
            image, flipped = mask.clone(), torch.rand(16) < 0.5
            mask[flipped] = mask[flipped].flip(axis)
            if not apart:
                image[flipped] = image[flipped].flip(axis)
            scores = model(image)
            optimizer.zero_grad()
            if classes:
                functional.cross_entropy(scores, mask[:, 0].long()).backward()
            else:
                functional.binary_cross_entropy_with_logits(scores, mask).backward()
            optimizer.step()
    return seen.observed(MirroredTargets)


def test_masks_mirrored_without_their_images() -> None:
    last = observed(apart=True)[-1]
    assert last.rows >= 24
    assert 0.3 < last.mirrored / last.rows < 0.7
    assert last.direction == "left to right"
    assert "test_mirrored_targets.py" in (last.location or "")


def test_labels_of_each_place() -> None:
    last = observed(apart=True, classes=True, axis=-2)[-1]
    assert 0.3 < last.mirrored / last.rows < 0.7
    assert last.direction == "top to bottom"


def test_masks_mirrored_with_their_images() -> None:
    last = observed(apart=False)[-1]
    assert last.rows >= 24
    assert last.mirrored < 0.1 * last.rows
