from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from mothtrap.adapters.torch.data import samplers
from mothtrap.adapters.torch.data.samplers import data_of, plan_of, samples_of

DATA = TensorDataset(torch.arange(20.0))


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(range(5))


class SeedableRandomSampler(RandomSampler):
    """Looks like the sampler that Accelerate puts in place of a random one."""


SeedableRandomSampler.__module__ = "accelerate.data_loader"


class Own(Sampler[int]):
    def __iter__(self) -> Any:
        raise AssertionError("asked to draw")


@pytest.mark.parametrize(
    ("loader", "kind"),
    [
        (DataLoader(DATA, batch_size=4), "sequential"),
        (DataLoader(DATA, batch_size=None), "sequential"),
        (DataLoader(DATA, batch_size=4, shuffle=True), "shuffled"),
        (DataLoader(DATA, sampler=SubsetRandomSampler([1, 2])), "shuffled"),
        (DataLoader(DATA, sampler=SeedableRandomSampler(DATA)), "shuffled"),
        (DataLoader(DATA, sampler=RandomSampler(DATA, replacement=True)), "with_replacement"),
        (DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 20, 9)), "with_replacement"),
        (DataLoader(DATA, sampler=Own()), "own"),
        (DataLoader(DATA, batch_sampler=[[1, 2], [3]]), "own"),
        (DataLoader(Stream(), batch_size=2), "iterable"),
    ],
)
def test_the_kind_of_sampler_is_told_without_drawing(loader: DataLoader, kind: str) -> None:
    state = torch.get_rng_state()
    assert plan_of(loader).sampler == kind
    assert torch.equal(torch.get_rng_state(), state)


def test_sizes_are_told_where_they_are_known() -> None:
    plan = plan_of(DataLoader(DATA, batch_size=8, num_workers=2))
    assert (plan.samples, plan.batch_size, plan.batches, plan.workers) == (20, 8, 3, 2)
    plan = plan_of(DataLoader(Stream(), batch_size=2))
    assert (plan.samples, plan.batches) == (None, None)


def test_the_length_of_a_stream_is_not_asked_for() -> None:
    class Long(Stream):
        def __len__(self) -> int:
            raise AssertionError("asked")

    assert plan_of(DataLoader(Long(), batch_size=2)).samples is None


def test_subsets_of_subsets_are_followed_to_the_data() -> None:
    inner = Subset(DATA, [10, 11, 12, 13])
    outer = Subset(inner, [3, 1])
    data, index_N = data_of(DataLoader(outer, batch_size=2)) or (None, None)
    assert data is DATA
    assert index_N.tolist() == [11, 13]
    data, index_N = data_of(DataLoader(inner, sampler=SubsetRandomSampler([0, 2]))) or (None, None)
    assert data is DATA
    assert index_N.tolist() == [10, 12]
    assert samples_of(DataLoader(outer), [0, 1]) == (13, 11)


def test_what_cannot_be_known_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_of(DataLoader(DATA, sampler=Own())) is None
    assert data_of(DataLoader(Stream())) is None
    assert samples_of(DataLoader(Stream()), [None, None]) == ()
    assert samples_of(DataLoader(DATA), "ab") == ()
    assert samples_of(DataLoader(DATA, num_workers=1, in_order=False), [1]) == ()
    monkeypatch.setattr(samplers, "MAX_INDICES", 19)
    assert data_of(DataLoader(DATA)) is None
