from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.adapters.torch.layers.image_channels import differences
from mothtrap.core.facts.layers import ImageChannels


def images(rows: int = 4, size: int = 16) -> torch.Tensor:
    """Return smooth color images of shape (rows, size, size, 3)."""
    place = torch.linspace(0, 3, size)
    waves = torch.sin(place[:, None] + place[None] * torch.rand(rows, 1, 1))
    return waves[..., None] * 0.3 + torch.tensor([0.1, 0.5, 0.9])


def test_neighbors_are_similar_only_in_the_right_layout() -> None:
    right = differences(images().permute(0, 3, 1, 2))
    wrong = differences(images().reshape(-1, 3, 16, 16))
    assert right is not None
    assert wrong is not None
    assert right[0] < right[1]
    assert wrong[1] < 0.5 * wrong[0]


@pytest.mark.parametrize("shape", [(4, 1, 16, 16), (4, 3, 8, 8), (4, 3, 16), (4, 16, 16, 3)])
def test_other_shapes_are_left_out(shape: tuple[int, ...]) -> None:
    assert differences(torch.rand(shape)) is None


def test_images_of_the_model_are_told() -> None:
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(392, 2))
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            optimizer.zero_grad()
            model(images().permute(0, 3, 1, 2)).square().mean().backward()
            optimizer.step()
    found = [one for one in seen.observed(ImageChannels) if isinstance(one, ImageChannels)]
    assert {(one.module, one.shape) for one in found} == {("Sequential", (4, 3, 16, 16))}
    assert all(one.neighbor < one.third for one in found)
