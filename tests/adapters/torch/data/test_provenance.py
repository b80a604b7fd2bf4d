"""The samples of each step are reported exactly, for every kind of loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)

from mothtrap.adapters.torch.data import loaders, provenance
from mothtrap.core.facts.samples import DataSeen, SampleBatch, SamplesNamed, SamplesTaken
from mothtrap.core.packed import unpack
from mothtrap.statistics.torch.row_digests import sample_digests


class Numbered(Dataset[Any]):
    """Row `i` holds `i` in its first column, so a batch shows which samples it has."""

    def __init__(self, rows: int = 32, first: int = 0) -> None:
        self.x = torch.randn(rows, 6)
        self.x[:, 0] = torch.arange(first, first + rows)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], index % 3


class Loop:
    """A training that records, step by step, what its batches hold."""

    def __init__(self) -> None:
        self.model = classifier()
        self.optimizer = sgd(self.model, 1e-4)
        self.rows: list[list[int]] = []

    def step(self, *batches: Any) -> None:
        self.rows.append([])
        self.optimizer.zero_grad()
        for x, y in batches:
            self.rows[-1] += x[:, 0].long().tolist()
            nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()

    def over(self, loader: DataLoader[Any]) -> Loop:
        for batch in loader:
            self.step(batch)
        return self


def batches(seen: Seen) -> list[tuple[SampleBatch, ...]]:
    """Return the batches step by step; every step is reported once, in order."""
    told = seen.observed(SamplesTaken)
    assert [each.step for each in told] == list(range(len(told)))
    return [each.batches for each in told]


def indices(seen: Seen) -> list[list[int]]:
    return [
        [index for batch in step for index in unpack(batch.indices).tolist()]
        for step in batches(seen)
    ]


def test_every_step_tells_the_indices_that_its_batch_holds() -> None:
    with watched() as seen:
        loop = Loop().over(DataLoader(Numbered(), batch_size=8, shuffle=True))
    assert indices(seen) == loop.rows
    assert [step[0].number for step in batches(seen)] == [0, 1, 2, 3]
    [data] = seen.observed(DataSeen)
    assert (data.kind, data.length) == (f"{__name__}.Numbered", 32)
    assert all(batch.sure and batch.data == 0 for step in batches(seen) for batch in step)


def test_subsets_of_subsets_tell_the_indices_of_what_they_were_taken_from() -> None:
    inner = Subset(Numbered(), [30, 20, 10, 5, 3, 2])
    with watched() as seen:
        loop = Loop().over(DataLoader(Subset(inner, [5, 0, 1]), batch_size=3, shuffle=True))
    assert indices(seen) == loop.rows
    assert sorted(loop.rows[0]) == [2, 20, 30]


def test_concatenated_data_tell_the_set_and_the_index_within() -> None:
    first, second = Numbered(10), Numbered(10, first=100)
    data = ConcatDataset([first, Subset(second, [9, 8, 7, 6])])
    with watched() as seen:
        loop = Loop().over(DataLoader(data, batch_size=7, shuffle=True))
    found = [
        100 * set_ + index
        for step in batches(seen)
        for batch in step
        for set_, index in zip(
            unpack(batch.sets).tolist() or [batch.data] * batch.rows,
            unpack(batch.indices).tolist(),
            strict=True,
        )
    ]
    # The sets are numbered in the order in which they are first used.
    numbers = {told.data: told.length for told in seen.observed(DataSeen)}
    swapped = numbers[0] == 10 and loop.rows[0][0] >= 100
    expected = [row for step in loop.rows for row in step]
    if swapped:
        expected = [row - 100 if row >= 100 else row + 100 for row in expected]
    assert found == expected


def test_workers_of_a_loader_are_told_with_their_seeds() -> None:
    class Seeds(Numbered):
        def __getitem__(self, index: int) -> Any:
            x, y = super().__getitem__(index)
            info = get_worker_info()
            assert info is not None
            x = x.clone()
            x[1] = info.id
            return x, y

    given: list[tuple[int, int]] = []
    with watched() as seen:
        loop = Loop()
        loader = DataLoader(Seeds(), batch_size=4, shuffle=True, num_workers=2)
        for x, y in loader:
            given.append((int(x[0, 1]), loader._iterator is None))
            loop.step((x, y))
    assert indices(seen) == loop.rows
    told = [step[0] for step in batches(seen)]
    assert [batch.worker for batch in told] == [worker for worker, _ in given]
    seeds = {batch.worker: batch.seed for batch in told}
    assert seeds[1] == (seeds[0] or 0) + 1


def test_micro_batches_of_a_step_are_told_apart() -> None:
    with watched() as seen:
        loop = Loop()
        pairs = iter(DataLoader(Numbered(), batch_size=4))
        for first, second in zip(pairs, pairs, strict=True):
            loop.step(first, second)
    assert indices(seen) == loop.rows
    assert [len(step) for step in batches(seen)] == [2] * 4
    assert batches(seen)[0][1].indices == "r4,4"


def test_a_batch_that_was_loaded_ahead_counts_when_it_is_used() -> None:
    with watched() as seen:
        loop = Loop()
        loader = iter(DataLoader(Numbered(), batch_size=8, shuffle=True))
        batch = next(loader)
        for ahead in loader:
            loop.step(batch)
            batch = ahead
        loop.step(batch)
    assert indices(seen) == loop.rows


def test_a_batch_that_is_skipped_does_not_count() -> None:
    with watched() as seen:
        loop = Loop()
        for number, batch in enumerate(DataLoader(Numbered(), batch_size=8, shuffle=True)):
            if number != 1:
                loop.step(batch)
    assert indices(seen) == loop.rows


def test_what_is_evaluated_does_not_count() -> None:
    with watched() as seen:
        loop = Loop()
        for batch in DataLoader(Numbered(), batch_size=16):
            loop.step(batch)
            with torch.no_grad():
                for x, _ in DataLoader(Numbered(8, first=500), batch_size=4):
                    loop.model(x)
    assert indices(seen) == loop.rows


def test_one_batch_for_many_steps_counts_in_each() -> None:
    with watched() as seen:
        loop = Loop()
        for batch in DataLoader(Numbered(), batch_size=16):
            for _ in range(3):
                loop.step(batch)
    assert indices(seen) == loop.rows


def test_a_batch_that_was_changed_on_the_way_is_taken_for_the_latest_one_and_says_so() -> None:
    with watched() as seen:
        loop = Loop()
        for x, y in DataLoader(Numbered(), batch_size=16):
            loop.step((x.double().float() + 0.0, y))
    assert indices(seen) == loop.rows
    assert not any(batch.sure for step in batches(seen) for batch in step)


def _moved_ahead(loader: DataLoader[Any], depth: int = 1) -> Iterator[Any]:
    """Move batches to a device as prefetchers do: load the next before yielding one."""
    waiting: list[Any] = []
    for batch in _moved(loader):
        waiting.append(batch)
        if len(waiting) > depth:
            yield waiting.pop(0)
    yield from waiting


def _moved(loader: DataLoader[Any]) -> Iterator[Any]:
    iterator = iter(loader)
    while (batch := next(iterator, None)) is not None:
        batch = [tensor + 0 for tensor in batch]
        yield batch


@pytest.mark.parametrize("depth", [1, 3])
def test_batches_that_were_moved_ahead_are_told_in_the_order_of_their_use(depth: int) -> None:
    with watched() as seen:
        loop = Loop()
        for batch in _moved_ahead(DataLoader(Numbered(), batch_size=4, shuffle=True), depth):
            loop.step(batch)
    assert indices(seen) == loop.rows
    assert not any(batch.sure for step in batches(seen)[:-depth] for batch in step)


def test_all_micro_batches_of_a_step_that_were_moved_before_the_first_is_used_are_told() -> None:
    with watched() as seen:
        loop = Loop()
        moved = _moved_ahead(DataLoader(Numbered(80), batch_size=2, shuffle=True))
        while micro := list(itertools.islice(moved, 20)):
            loop.step(*micro)
    assert indices(seen) == loop.rows
    assert [len(step) for step in batches(seen)] == [20, 20]


def test_a_batch_that_is_skipped_and_was_not_moved_does_not_count() -> None:
    with watched() as seen:
        loop = Loop()
        for number, (x, y) in enumerate(DataLoader(Numbered(), batch_size=8, shuffle=True)):
            if number != 1:
                loop.step((x + 0.0, y + 0))
    assert indices(seen) == loop.rows


def test_rows_that_were_joined_on_the_way_are_those_of_the_batch_that_was_loaded() -> None:
    with watched() as seen:
        loop = Loop()
        for x, y in DataLoader(Numbered(), batch_size=8, shuffle=True):
            loop.step((torch.cat([x, x + 0.5]), torch.cat([y, y])))
    assert indices(seen) == [rows[:8] for rows in loop.rows]
    assert not any(batch.sure for step in batches(seen) for batch in step)


def test_a_model_that_is_no_module_uses_the_batches_of_its_step() -> None:
    weight = torch.zeros(6, 3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    rows = []
    with watched() as seen:
        for x, y in DataLoader(Numbered(), batch_size=8, shuffle=True):
            rows.append(x[:, 0].long().tolist())
            optimizer.zero_grad()
            nn.functional.cross_entropy(x @ weight, y).backward()
            optimizer.step()
    assert indices(seen) == rows


def test_rows_that_come_from_no_loader_have_digests() -> None:
    data = TensorDataset(torch.randn(12, 6))
    x = data.tensors[0]
    with watched() as seen:
        loop = Loop()
        for start in (0, 4, 8, 0):
            loop.step((x[start : start + 4], torch.arange(4) % 3))
    told = [step[0] for step in batches(seen)]
    assert all(batch.place == "input" and batch.rows == 4 for batch in told)
    digests = [unpack(batch.digests).tolist() for batch in told]
    assert digests[0] == digests[3] == sample_digests(x[:4])
    assert len({digest for step in digests for digest in step}) == 12


def test_the_same_rows_again_are_told_by_their_step() -> None:
    x, y = torch.randn(8, 6), torch.arange(8) % 3
    with watched() as seen:
        loop = Loop()
        for _ in range(3):
            loop.step((x, y))
    told = [step[0] for step in batches(seen)]
    assert [batch.same_as for batch in told] == [None, 0, 0]
    assert told[0].digests
    assert not told[1].digests


def test_iterable_data_have_digests_or_the_names_that_their_batches_hold() -> None:
    class Stream(IterableDataset[Any]):
        def __init__(self, named: bool) -> None:
            self.named = named

        def __iter__(self) -> Any:
            for number in range(8):
                row = {"x": torch.full((6,), float(number)), "y": number % 3}
                yield {**row, "__key__": f"shard/{number}"} if self.named else row

    for named in (False, True):
        with watched() as seen:
            loop = Loop()
            for batch in DataLoader(Stream(named), batch_size=4):
                loop.step((batch["x"], batch["y"]))
        first = batches(seen)[0][0]
        if named:
            assert first.names == ("shard/0", "shard/1", "shard/2", "shard/3")
            assert not first.digests
        else:
            assert (first.place, len(unpack(first.digests))) == ("x", 4)
        [data] = seen.observed(DataSeen)
        assert data.length is None


class Files(Numbered):
    def __init__(self) -> None:
        super().__init__()
        self.root = "/pictures"
        self.samples = [(f"/pictures/{i % 2}/img_{i:04d}.png", i % 2) for i in range(32)]


def test_names_of_files_are_told_once_for_each_sample() -> None:
    with watched() as seen:
        Loop().over(loader := DataLoader(Files(), batch_size=8, shuffle=True)).over(loader)
    named = {
        index: name
        for told in seen.observed(SamplesNamed)
        for index, name in zip(unpack(told.indices).tolist(), told.names, strict=True)
    }
    assert named == {i: f"{i % 2}/img_{i:04d}.png" for i in range(32)}
    assert sum(len(told.names) for told in seen.observed(SamplesNamed)) == 32
    [data] = seen.observed(DataSeen)
    assert (data.names_in, data.root, data.sorted_names) == ("samples", "/pictures/", False)


def test_a_loader_made_anew_for_every_step_is_followed_to_the_end() -> None:
    data = Numbered()
    with watched() as seen:
        loop = Loop()
        for _ in range(loaders.LOADERS + 10):
            loop.step(next(iter(DataLoader(data, batch_size=8, shuffle=True))))
    assert indices(seen) == loop.rows


def test_a_step_costs_hundreds_of_bytes() -> None:
    with watched() as seen:
        Loop().over(DataLoader(Numbered(4096), batch_size=32, shuffle=True))
    told = [len(step[0].indices) for step in batches(seen)]
    assert max(told) < 100


def test_a_fault_of_the_data_costs_only_what_is_told_of_it(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(provenance, "origins", lambda *_: 1 / 0)
    with watched(may_fail=True) as seen:
        loop = Loop().over(DataLoader(Numbered(), batch_size=8))
    assert seen.failed() == ["samples"]
    assert len(loop.rows) == len(seen.steps()) == 4
