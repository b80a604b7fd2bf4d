"""Failing loaders: the sample and the worker are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.explaining.raising import explained, explaining
from torch.utils.data import DataLoader, Dataset, Subset


class Broken(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 7:
            raise KeyError("label")
        return torch.zeros(3)


def drain(loader: DataLoader[torch.Tensor]) -> Callable[[], object]:
    def run() -> None:
        for _ in loader:
            pass

    return run


def test_a_sample_that_raises_in_this_process() -> None:
    found = explained(drain(DataLoader(Broken(), batch_size=4)))
    assert found.kind == "data"
    assert "loader 1 (" in found.sentence
    assert "could not create a batch: KeyError: 'label'; it was sample 7" in found.sentence
    assert found.sentence.endswith("the batch should have samples 4 to 7")
    assert found.batch == ""


def test_samples_of_a_subset_are_those_of_its_data() -> None:
    found = explained(drain(DataLoader(Subset(Broken(), [0, 7, 3]), batch_size=3)))
    assert "it was sample 1 of the loader" in found.sentence
    assert found.sentence.endswith("the batch should have samples 0, 7, 3")


def test_a_sample_that_raises_in_a_worker() -> None:
    found = explained(drain(DataLoader(Broken(), batch_size=4, num_workers=1)))
    assert "worker 0 of loader 1 (" in found.sentence
    assert "test_loading.py:" in found.sentence
    assert "KeyError: 'label'; the batch should have samples 4 to 7" in found.sentence


def test_samples_of_several_sizes() -> None:
    data = [torch.zeros(3), torch.zeros(4)]
    found = explained(drain(DataLoader(data, batch_size=2)))  # type: ignore[arg-type]
    assert (found.kind, found.module) == ("shape", None)
    assert "do not fit into one batch: stack expects each tensor" in found.sentence
    assert "collate_fn" in found.fixes[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("DataLoader worker (pid 123) is killed by signal: Killed. ", "memory runs out"),
        ("DataLoader worker (pid(s) 12, 13) exited unexpectedly", "ended without a message"),
        ("DataLoader worker (pid 9) is killed by signal: Segmentation fault. ", "Segmentation"),
    ],
)
def test_workers_that_are_gone(text: str, says: str) -> None:
    class Lost(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> torch.Tensor:
            raise RuntimeError(text)

    with explaining() as told:
        found = told(drain(DataLoader(Lost())))
    assert says in found.sentence
    assert any("num_workers=0" in fix for fix in found.fixes)
