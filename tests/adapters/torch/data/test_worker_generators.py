"""Generators that are copied into the workers of a loader are found by the code that uses them."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from mothtrap.adapters.torch.data.worker_generators import seeded_alike, shared_generators
from mothtrap.core.facts.data import GeneratorsShared

NOISE = np.random.RandomState(3)


class Rows(Dataset):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.rows = torch.randn(16, 6)

    def __len__(self) -> int:
        return 16


class Own(Rows):
    def __getitem__(self, index: int):
        return self._changed(self.rows[index]), index % 3

    def _changed(self, row: torch.Tensor) -> torch.Tensor:
        return row + float(self.rng.normal())


class OfGlobal(Rows):
    def __getitem__(self, index: int):
        return self.rows[index] + float(NOISE.normal()), index % 3


class Jitter:
    def __init__(self) -> None:
        self.random = random.Random(0)

    def __call__(self, row: torch.Tensor) -> torch.Tensor:
        return row + self.random.random()


class Compose:
    def __init__(self, *transforms: object) -> None:
        self.transforms = list(transforms)

    def __call__(self, row: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            row = transform(row)
        return row


class Transformed(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.transform = Compose(Jitter())

    def __getitem__(self, index: int):
        return self.transform(self.rows[index]), index % 3


class Unused(Rows):
    def __getitem__(self, index: int):
        return self.rows[index] + torch.rand(()), index % 3


class Seeded(Rows):
    def __getitem__(self, index: int):
        self.rng = np.random.default_rng(index)
        return self.rows[index] + float(self.rng.normal()), index % 3


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (Own, ("Own.rng",)),
        (OfGlobal, ("NOISE",)),
        (Transformed, ("Jitter.random",)),
        (Unused, ()),
        (Seeded, ()),
    ],
)
def test_generators_that_loading_a_sample_uses(data: type[Rows], names: tuple[str, ...]) -> None:
    assert shared_generators(DataLoader(data(), 4, num_workers=2)) == names
    assert shared_generators(DataLoader(Subset(data(), range(8)), 4, num_workers=2)) == names


def test_loaders_whose_workers_differ() -> None:
    assert shared_generators(DataLoader(Own(), 4)) == ()
    assert shared_generators(DataLoader(Own(), 4, num_workers=1)) == ()
    begun = DataLoader(Own(), 4, num_workers=2, worker_init_fn=print)
    assert shared_generators(begun) == ()
    assert shared_generators(DataLoader([1, 2, 3], 1, num_workers=2)) == ()


def of_number(worker: int) -> None:
    np.random.seed(3 + worker)


def of_torch(worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


def of_system(worker: int) -> None:
    np.random.seed()


def of_nothing(worker: int) -> None:
    np.random.seed(None)


def of_none(worker: int) -> None:
    print("a worker begins")


def alike(worker: int) -> None:
    np.random.seed(3)
    random.seed(3)


@pytest.mark.parametrize("function", [of_number, of_torch, of_system, of_nothing, of_none, alike])
def test_functions_that_set_a_seed(function: object) -> None:
    found = seeded_alike(DataLoader(Unused(), 4, num_workers=2, worker_init_fn=function))
    assert found == ("alike" if function is alike else "")


def test_it_is_reported_for_a_loader_once() -> None:
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        loader = DataLoader(Own(), 8, num_workers=2)
        for _ in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    [found] = seen.observed(GeneratorsShared)
    assert (found.loader, found.workers, found.persistent) == ("loader 1", 2, False)
    assert found.generators == ("Own.rng",)
