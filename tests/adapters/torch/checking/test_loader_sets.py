"""Data sets behind loaders: their roles, samples, and targets."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from mothtrap.adapters.torch.checking.loader_sets import IndexedSet, LoadersSeen, given_set, rows_of
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses


class Noisy(Dataset[torch.Tensor]):
    """Adds noise to each sample that is read."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(3)


class Stream(IterableDataset[torch.Tensor]):
    """A stream of numbers."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from torch.arange(6.0)


def seen(training: DataLoader, other: DataLoader) -> LoadersSeen:
    """Return the loaders that are known after a step fed by the first one."""
    loaders = LoadersSeen()
    loaders.made += [(other, "train.py:2"), (training, "train.py:1")]
    loaders.noticed(training)
    return loaders


def fed(batch: object) -> Recording:
    recording = Recording(10, lambda: None, ScaledLosses())
    recording.batches["batch", 0, "train.py:5"] = [batch]
    return recording


def test_the_loader_that_fed_the_steps_is_for_training_and_others_for_evaluation() -> None:
    x, y = torch.randn(8, 3), torch.arange(8)
    loaders = seen(DataLoader(TensorDataset(x, y)), DataLoader(TensorDataset(x + 1, y)))
    train, evaluation = loaders.sets(fed((x[:1], y[:1])))
    assert (train.role, train.size, train.location) == ("train", 8, "train.py:1")
    assert (evaluation.role, evaluation.location) == ("evaluation", "train.py:2")
    rows = evaluation.read([2, 5], math.inf)
    assert rows.indices == (2, 5)
    np.testing.assert_array_equal(rows.inputs[0], (x + 1)[[2, 5]].numpy())
    np.testing.assert_array_equal(rows.targets, [2, 5])


def test_no_sample_is_read_after_the_deadline() -> None:
    rows = IndexedSet(TensorDataset(torch.randn(8, 3)), "train", None).read([0, 1], -math.inf)
    assert rows.indices == ()


def test_a_data_set_that_changes_its_samples_is_random() -> None:
    assert IndexedSet(Noisy(), "train", None).random
    assert not IndexedSet(TensorDataset(torch.randn(4, 3)), "train", None).random


def test_of_a_stream_the_watched_batches_are_known() -> None:
    loaders = seen(DataLoader(Stream(), 3), DataLoader(TensorDataset(torch.zeros(1))))
    train = next(one for one in loaders.sets(fed(torch.tensor([4.0, 5.0]))) if one.role == "train")
    assert train.size is None
    np.testing.assert_array_equal(train.read([], math.inf).inputs[0], [4.0, 5.0])


@pytest.mark.parametrize(
    "samples",
    [
        [(torch.ones(2), 1), (torch.ones(2), 0)],
        [{"ids": torch.ones(2), "labels": 1}, {"ids": torch.ones(2), "labels": 0}],
    ],
)
def test_targets_are_the_last_part_or_named_so(samples: list) -> None:
    rows = rows_of(samples, (0, 1))
    assert len(rows.inputs) == 1
    assert rows.targets is not None
    assert rows.targets.tolist() == [1, 0]


def test_samples_of_different_lengths_are_kept_as_objects() -> None:
    rows = rows_of([(torch.ones(2), 1), (torch.ones(3), 0)], (0, 1))
    assert rows.inputs[0].dtype == object
    assert [len(one) for one in rows.inputs[0]] == [2, 3]


def test_parts_of_a_data_set_know_their_places_in_it() -> None:
    whole = TensorDataset(torch.randn(8, 3))
    half = Subset(whole, [4, 5, 6, 7])
    part = IndexedSet(Subset(half, [1, 3]), "train", None)
    assert part.places == [5, 7]
    assert part.base == IndexedSet(whole, "evaluation", None).base


def test_samplers_of_parts_make_two_sets_of_one_data_set() -> None:
    whole = TensorDataset(torch.randn(8, 3), torch.arange(8))
    training = DataLoader(whole, sampler=SubsetRandomSampler([0, 1, 2]))
    other = DataLoader(whole, sampler=SubsetRandomSampler([3, 4]))
    train, evaluation = seen(training, other).sets(fed(torch.zeros(1)))
    assert (train.size, train.places) == (3, [0, 1, 2])
    assert (evaluation.role, evaluation.places) == ("evaluation", [3, 4])


def test_a_loader_that_shuffles_is_known() -> None:
    whole = TensorDataset(torch.randn(8, 3))
    assert IndexedSet.of(DataLoader(whole, shuffle=True), "train", None).shuffled
    assert not IndexedSet.of(DataLoader(whole), "train", None).shuffled


def test_reading_leaves_random_states_as_they_are() -> None:
    before = torch.get_rng_state()
    noisy = IndexedSet(Noisy(), "train", None)
    noisy.read([0, 1], math.inf)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_without_a_row_for_each_sample_has_no_samples() -> None:
    edges = torch.zeros(2, 5, dtype=torch.long)
    batches = given_set([(torch.randn(7, 3), edges)], "train")
    assert batches is not None
    assert batches.read([], math.inf).indices == ()


@pytest.mark.parametrize("targets_first", [False, True])
def test_a_loader_of_targets_belongs_to_the_loader_of_inputs(targets_first: bool) -> None:
    x, y = torch.randn(8, 3), torch.arange(8)
    parts = [DataLoader(TensorDataset(x), 4), DataLoader(TensorDataset(y), 4)]
    loaders = LoadersSeen()
    recording = Recording(10, lambda: None, ScaledLosses())
    for number, loader in enumerate(parts[::-1] if targets_first else parts):
        loaders.made.append((loader, f"train.py:{number}"))
        loaders.noticed(loader)
        recording.batches["batch", number, "train.py:5"] = list(loader)
    [inputs] = [one for one in loaders.sets(recording) if one.origin is not None]
    assert inputs.origin is not None
    rows = inputs.origin.read([2, 5], math.inf)
    np.testing.assert_array_equal(rows.targets, [2, 5])
    np.testing.assert_array_equal(inputs.handed[1].targets, [4, 5, 6, 7])
    np.testing.assert_array_equal(inputs.handed[1].inputs[0], x[4:].numpy())


def test_loaders_of_inputs_with_their_targets_stay_as_they_are() -> None:
    whole = TensorDataset(torch.randn(8, 3), torch.arange(8))
    loaders = LoadersSeen()
    recording = Recording(10, lambda: None, ScaledLosses())
    for number, loader in enumerate([DataLoader(whole, 4), DataLoader(Subset(whole, range(8)), 4)]):
        loaders.made.append((loader, None))
        loaders.noticed(loader)
        recording.batches["batch", number, "train.py:5"] = list(loader)
    assert [one.origin for one in loaders.sets(recording)] == [None, None]
