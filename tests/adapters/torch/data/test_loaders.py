from __future__ import annotations

import math
import threading
from collections.abc import Iterator

import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)

from mothtrap.adapters.torch.data import loaders
from mothtrap.core.facts.data import (
    BatchesLoaded,
    IndicesShared,
    LoaderBegan,
    NonfiniteInput,
    SplitDrawn,
)
from mothtrap.core.steps import Mode


def table(rows: int = 32) -> TensorDataset:
    return TensorDataset(torch.randn(rows, 6), torch.arange(rows) % 3)


def train(loader, model: nn.Module | None = None, epochs: int = 1) -> None:
    model = model or classifier()
    optimizer = sgd(model)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def evaluate(loader, model: nn.Module) -> None:
    with torch.no_grad():
        for x, _ in loader:
            model(x)


def passes(seen: Seen) -> list[tuple[int, int, int, bool]]:
    return [
        (told.pass_number, told.batches, told.repeated, told.ended)
        for told in seen.observed(BatchesLoaded)
    ]


def test_a_loader_is_described_once_at_the_line_that_iterates() -> None:
    with watched() as seen:
        train(DataLoader(table(), batch_size=8, shuffle=True), epochs=2)
    [began] = seen.observed(LoaderBegan)
    assert (began.loader, began.sampler, began.samples) == ("loader 1", "shuffled", 32)
    assert (began.batch_size, began.batches, began.workers) == (8, 4, 0)
    assert "test_loaders.py:" in (began.location or "")
    assert passes(seen) == [(1, 4, 0, True), (2, 4, 0, True)]


def test_batches_given_twice_in_one_pass_are_counted_in_several_passes_not() -> None:
    data = table(16)
    twice = TensorDataset(*(torch.cat([t, t]) for t in data.tensors))
    with watched() as seen:
        train(DataLoader(twice, batch_size=8))
    assert passes(seen) == [(1, 3, 1, False), (1, 4, 2, True)]
    with watched() as seen:
        train(DataLoader(data, batch_size=8), epochs=3)
    assert [repeated for _, _, repeated, _ in passes(seen)] == [0, 0, 0]


def test_equal_batches_are_told_by_the_indices_that_were_drawn() -> None:
    data = table(16)
    twice = TensorDataset(*(torch.cat([t, t]) for t in data.tensors))
    listed_twice = Subset(data, [*range(16), *range(16)])
    found = []
    for given in (twice, listed_twice):
        with watched() as seen:
            train(DataLoader(given, batch_size=8))
        last = seen.observed(BatchesLoaded)[-1]
        assert isinstance(last, BatchesLoaded)
        found.append((last.repeated, last.other_indices, round(last.equal_rows, 3)))
    assert found == [(2, 2, 0.032), (2, 0, 0.032)]


class Padded(Dataset):
    """Returns a batch by its index; the rows of different batches have different lengths."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(3 + index)


def ahead(loader: DataLoader) -> Iterator[torch.Tensor]:
    """Load each batch before the previous one is used, as Accelerate does."""
    batches = iter(loader)
    current = next(batches)
    for following in batches:
        yield current
        current = following
    yield current


def test_batches_that_are_loaded_ahead_are_matched_by_their_sizes() -> None:
    data, model = Padded(), nn.Sequential(nn.AdaptiveAvgPool1d(2), nn.Linear(2, 1))
    own = DataLoader(data, batch_size=1, shuffle=True)
    held_out = DataLoader(Subset(data, [1, 2, 3]), batch_size=1)
    with watched() as seen:
        optimizer = sgd(model)
        for x in ahead(own):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            for x in ahead(held_out):
                model(x)
        train(DataLoader(table(16), batch_size=8))
        assert seen.failed() == []
    [shared] = seen.observed(IndicesShared)
    assert (shared.train_samples, shared.eval_samples, shared.shared) == (16, 3, 3)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_split_knows_among_how_many_ranks_its_samples_are_divided(ranks: int) -> None:
    data, model = table(32), classifier()
    own, held_out = Subset(data, range(24)), Subset(data, range(24, 32))
    divided = DistributedSampler(own, num_replicas=ranks, rank=0)
    loader = DataLoader(own, batch_size=8, sampler=divided if ranks > 1 else None)
    with watched() as seen:
        train(loader, model, epochs=2)
        evaluate(DataLoader(held_out, batch_size=8), model)
        train(loader, model)
    [split] = seen.observed(SplitDrawn)
    assert split.replicas == ranks


def test_one_changed_element_makes_another_batch() -> None:
    data = table(16)
    x = torch.cat([data.tensors[0]] * 2)
    x[31, 5] += 1e-3
    with watched() as seen:
        train(DataLoader(TensorDataset(x, torch.cat([data.tensors[1]] * 2)), batch_size=8))
    assert passes(seen)[-1] == (1, 4, 1, True)


def test_batches_whose_rows_are_the_same_do_not_count() -> None:
    same = TensorDataset(torch.ones(32, 6), torch.zeros(32, dtype=torch.int64))
    with watched() as seen:
        train(DataLoader(same, batch_size=8))
    assert passes(seen) == [(1, 4, 0, True)]


class Stream(IterableDataset):
    """Every worker reads the whole stream unless the workers divide it."""

    def __init__(self, *, shared: bool) -> None:
        self.data, self.shared = table(), shared

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        info = get_worker_info()
        own = range(info.id, 32, info.num_workers) if self.shared and info else range(32)
        return iter([self.data[index] for index in own])


@pytest.mark.parametrize(("shared", "repeated"), [(False, 4), (True, 0)])
def test_workers_that_read_the_same_stream_are_seen(shared: bool, repeated: int) -> None:
    with watched() as seen:
        train(DataLoader(Stream(shared=shared), batch_size=8, num_workers=2))
    assert passes(seen)[-1] == (1, 8 if not shared else 4, repeated, True)


def test_a_kept_iterator_begins_anew_in_every_pass() -> None:
    loader = DataLoader(table(), batch_size=8, num_workers=1, persistent_workers=True)
    with watched() as seen:
        train(loader, epochs=2)
    assert passes(seen) == [(1, 4, 0, True), (2, 4, 0, True)]


def test_after_some_passes_batches_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "PASSES", 1)
    with watched() as seen:
        train(DataLoader(table(), batch_size=8), epochs=3)
    assert passes(seen) == [(1, 4, 0, True)]


@pytest.mark.parametrize("workers", [0, 2])
def test_nan_is_found_with_its_samples(workers: int) -> None:
    data = table(64)
    data.tensors[0][37, 2] = math.nan
    held_out = Subset(data, list(range(63, -1, -1)))
    with watched() as seen:
        train(DataLoader(held_out, batch_size=8, num_workers=workers))
    found = seen.observed(NonfiniteInput)[0]
    assert (found.step, found.mode, found.source) == (3, Mode.TRAIN, "loader 1")
    assert (found.tensor, found.nan, found.rows, found.samples) == ("0", 1, (2,), (37,))


def test_nan_late_in_training_is_found_when_the_loss_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loaders, "CHECKED", 2)
    data = table(64)
    data.tensors[0][50, 2] = math.nan
    with watched() as seen:
        train(DataLoader(data, batch_size=8))
    [found] = seen.observed(NonfiniteInput)
    assert (found.step, found.samples) == (6, (50,))


def test_nan_in_batches_that_no_model_is_given_is_not_told() -> None:
    data = table()
    data.tensors[0][3, 2] = math.nan
    with watched() as seen:
        for _ in DataLoader(data, batch_size=8):
            pass
        train(DataLoader(table(), batch_size=8))
    assert seen.observed(NonfiniteInput) == []


def test_samples_that_both_loaders_draw_are_counted() -> None:
    data, model = table(60), classifier()
    own, held_out = Subset(data, range(40)), Subset(data, range(30, 60))
    with watched() as seen:
        train(DataLoader(own, batch_size=8, shuffle=True), model)
        evaluate(DataLoader(held_out, batch_size=8), model)
        train(DataLoader(own, batch_size=8), model)
    [told] = seen.observed(IndicesShared)
    assert (told.train_samples, told.eval_samples, told.shared) == (40, 30, 10)
    assert (told.train_loader, told.eval_loader) == ("loader 1", "loader 2")


@pytest.mark.parametrize("own_models", [True, False])
def test_a_model_for_each_fold_is_not_evaluated_on_what_the_others_train_on(
    own_models: bool,
) -> None:
    data, first = table(60), classifier()
    models = [first, classifier() if own_models else first]
    with watched() as seen:
        for model, held_out in zip(models, (range(20), range(20, 40)), strict=True):
            own = [row for row in range(60) if row not in held_out]
            train(DataLoader(Subset(data, own), batch_size=8), model)
            evaluate(DataLoader(Subset(data, held_out), batch_size=8), model)
        train(DataLoader(Subset(data, own), batch_size=8), model)
    shared = {told.shared for told in seen.observed(IndicesShared)}
    assert shared == ({0} if own_models else {0, 20})


def test_loaders_of_other_data_and_of_the_training_data_are_not_compared() -> None:
    data, model = table(40), classifier()
    loader = DataLoader(data, batch_size=8)
    with watched() as seen:
        train(loader, model)
        evaluate(loader, model)
        evaluate(DataLoader(table(16), batch_size=8), model)
        train(loader, model)
    assert seen.observed(IndicesShared) == []


def test_a_tensor_evaluated_by_hand_is_not_taken_for_the_last_batch() -> None:
    data, model = table(40), classifier()
    loader = DataLoader(Subset(data, range(20)), batch_size=20)
    with watched() as seen:
        optimizer = sgd(model)
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            with torch.no_grad():
                model(torch.randn(20, 6))
        evaluate(DataLoader(Subset(data, range(20, 40)), batch_size=20), model)
        train(loader, model)
    [told] = seen.observed(IndicesShared)
    assert told.shared == 0


def test_loaders_of_other_threads_are_left_alone() -> None:
    with watched() as seen:
        train(DataLoader(table(), batch_size=8))
        other = threading.Thread(target=lambda: list(DataLoader(table(), batch_size=4)))
        other.start()
        other.join()
        train(DataLoader(table(), batch_size=8))
    assert {began.batch_size for began in seen.observed(LoaderBegan)} == {8}


def test_so_many_loaders_are_followed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "LOADERS", 2)
    with watched() as seen:
        for _ in range(5):
            train(DataLoader(table(), batch_size=16))
    assert len(seen.observed(LoaderBegan)) == 2
    assert len(seen.steps()) == 10


def test_a_batch_that_a_teacher_sees_first_is_trained_on_all_the_same() -> None:
    data, teacher, model = table(40), classifier(), classifier()
    loader = DataLoader(Subset(data, range(20)), batch_size=10)
    held_out = DataLoader(Subset(data, range(15, 40)), batch_size=10)
    with watched() as seen:
        optimizer = sgd(model)
        for x, y in loader:
            with torch.no_grad():
                teacher(x)
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        evaluate(held_out, model)
        train(loader, model)
    [told] = seen.observed(IndicesShared)
    assert (told.train_loader, told.eval_loader, told.shared) == ("loader 1", "loader 2", 5)


def test_an_evaluation_of_one_batch_that_ends_no_pass_is_compared() -> None:
    data = table(48)
    with watched() as seen:
        model = classifier()
        held_out = DataLoader(Subset(data, range(28, 48)), batch_size=8)
        for _ in range(2):
            train(DataLoader(Subset(data, range(32)), batch_size=8), model)
            with torch.no_grad():
                model(next(iter(held_out))[0])
        train(DataLoader(Subset(data, range(32)), batch_size=8), model)
    found = seen.observed(IndicesShared)
    assert [(one.train_samples, one.eval_samples, one.shared) for one in found] == [(32, 20, 4)]
