"""Batches that a loader reads ahead are reported when the script gets them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mothtrap.tracing.steps import read_ahead
from mothtrap.tracing.steps.read_ahead import is_running, observed, replayed, when_handed


class Ahead:
    """A loader like that of Accelerate, around one that reports what it loads."""

    def __init__(self, batches: int, skips: int = 0) -> None:
        self.batches, self.skips, self.told = batches, skips, list[str]()
        self.end_of_dataloader = False

    def inner(self) -> Iterator[int]:
        for number in range(self.batches):
            when_handed(lambda number=number: self.told.append(f"{number}"), of_batch=True)  # type: ignore[misc]
            yield number
        when_handed(lambda: self.told.append("end"), of_batch=False)

    def __iter__(self) -> Iterator[int]:
        self.end_of_dataloader = False
        inner = self.inner()
        current = next(inner, None)
        for place in range(self.batches):
            following = next(inner, None)
            self.end_of_dataloader = following is None
            if place >= self.skips and current is not None:
                yield current
            current = following


@pytest.mark.parametrize("skips", [0, 2])
def test_a_batch_is_reported_as_it_is_handed_on(skips: int) -> None:
    loader = Ahead(4, skips)
    for batch in observed(Ahead.__iter__)(loader):
        assert loader.told == [str(n) for n in range(batch + 1)]
        assert not is_running()
    assert loader.told == ["0", "1", "2", "3", "end"]


def test_a_loader_of_one_batch_and_an_empty_one_end() -> None:
    for batches in (0, 1):
        loader = Ahead(batches)
        assert list(observed(Ahead.__iter__)(loader)) == list(range(batches))
        assert loader.told == [*map(str, range(batches)), "end"][: 1 + batches]


def test_a_loader_that_raises_leaves_nothing_behind() -> None:
    class Broken(Ahead):
        def inner(self) -> Iterator[int]:
            yield 0
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(observed(Broken.__iter__)(Broken(3)))
    assert not is_running()
    told: list[int] = []
    when_handed(lambda: told.append(1), of_batch=True)
    assert told == [1]


def test_in_a_replay_the_recorded_batches_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    iterate = replayed(Ahead.__iter__)
    assert list(iterate(Ahead(2))) == [0, 1]
    monkeypatch.setattr(read_ahead, "intercepts", [lambda _, own: iter([9, *own(Ahead(1))])])
    assert list(iterate(Ahead(2))) == [9, 0]
