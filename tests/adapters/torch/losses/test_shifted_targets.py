from __future__ import annotations

import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.targets import ShiftedTargets

STEPS, SIZE, LARGER = 128, 24, 32


def crops(maps: torch.Tensor, places: list[list[int]]) -> torch.Tensor:
    pairs = zip(maps, places, strict=True)
    return torch.stack([one[:, i : i + SIZE, j : j + SIZE] for one, (i, j) in pairs])


def observed(*, apart: bool) -> list[ShiftedTargets]:
    """Train on boxes that are cropped at random, with or without their images."""
    torch.manual_seed(0)
    masks = torch.zeros(128, 1, LARGER, LARGER)
    for mask in masks:
        row, column = torch.randint(6, 18, (2,))
        mask[:, row : row + 8, column : column + 8] = 1
    model = nn.Sequential(nn.Conv2d(1, 8, 7, padding=3), nn.ReLU(), nn.Conv2d(8, 1, 7, padding=3))
    with watched() as seen:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            chosen = masks[torch.randint(0, 128, (16,))]
            places = torch.randint(0, LARGER - SIZE + 1, (2, 16, 2)).tolist()
            image = crops(chosen, places[0])
            mask = crops(chosen, places[int(apart)])
            optimizer.zero_grad()
            loss = functional.binary_cross_entropy_with_logits
            loss(model(image), mask).backward()
            optimizer.step()
        assert seen.failed() == []
    return seen.observed(ShiftedTargets)


def test_masks_cropped_without_their_images() -> None:
    last = observed(apart=True)[-1]
    assert last.rows >= 24
    assert last.shifted > 0.6 * last.rows
    assert last.drift < 0.3 * last.distance
    assert 0.08 < last.distance < 0.3


def test_masks_cropped_with_their_images() -> None:
    last = observed(apart=False)[-1]
    assert last.rows >= 24
    assert last.shifted < 0.1 * last.rows
