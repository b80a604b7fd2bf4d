from __future__ import annotations

import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.data import BorderClasses

LARGE, SMALL = 45, 32


def observed(*, mode: str, ignored: int | None = None) -> list[BorderClasses]:
    """Train on maps of two squares of the classes 1 and 4, resized in a mode."""
    torch.manual_seed(0)
    model = nn.Conv2d(1, 5, 3, padding=1)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(12):
            maps = torch.zeros(6, 1, LARGE, LARGE)
            for one in maps:
                for label in (1, 4):
                    row, column = torch.randint(2, 25, (2,))
                    one[:, row : row + 15, column : column + 15] = label
            labels = functional.interpolate(maps, size=(SMALL, SMALL), mode=mode).long()[:, 0]
            if ignored is not None:
                labels[:, :4] = ignored
            scores = model(torch.randn(6, 1, SMALL, SMALL))
            optimizer.zero_grad()
            functional.cross_entropy(scores, labels, ignore_index=ignored or -100).backward()
            optimizer.step()
        assert seen.failed() == []
    return seen.observed(BorderClasses)


def test_classes_that_an_interpolation_made_up() -> None:
    [fact] = observed(mode="bilinear")
    assert (fact.looks, fact.classes, fact.others) == (5, (2, 3), 3)
    assert fact.places > 100


def test_maps_without_interpolation() -> None:
    [fact] = observed(mode="nearest")
    assert (fact.classes, fact.places, fact.others) == ((), 0, 3)


def test_ignored_labels_are_no_class() -> None:
    [fact] = observed(mode="nearest", ignored=255)
    assert (fact.classes, fact.others) == ((), 3)
