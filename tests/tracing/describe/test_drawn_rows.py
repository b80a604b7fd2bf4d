from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from mothtrap.tracing.describe.drawn_rows import REPORT_AT, DrawnRows, Draws

Batch = np.ndarray
STEPS = REPORT_AT[-1]


def counted(batches: Iterable[Batch]) -> Draws:
    rows = DrawnRows()
    for batch in batches:
        rows.add(np.asarray(batch, dtype=np.uint64), len(batch))
    return rows.counts()


def drawn(size: int = 50, of: int = 1000, *, keep: float = 0.0) -> Iterator[Batch]:
    """Draw batches at random; with a probability of `keep`, the previous batch comes again."""
    random = np.random.default_rng(0)
    batch = random.integers(0, of, size)
    for _ in range(STEPS):
        if random.random() >= keep:
            batch = random.integers(0, of, size)
        yield batch


def test_rows_drawn_at_random_come_back_by_chance() -> None:
    counts = counted(drawn())
    assert counts.distinct == 1000
    assert counts.same == 0
    assert counts.kept == pytest.approx(counts.usual, abs=0.02)
    assert counts.kept < 0.1
    assert counts.returned > 0.5


@pytest.mark.parametrize("keep", [0.6, 0.8, 0.95])
def test_batches_that_often_stay_the_same(keep: float) -> None:
    counts = counted(drawn(keep=keep))
    assert counts.same / counts.batches == pytest.approx(keep, abs=0.05)
    assert counts.irregular
    assert counts.usual < 0.1


def test_rows_that_mostly_stay() -> None:
    random = np.random.default_rng(0)

    def batches() -> Iterator[Batch]:
        batch = random.integers(0, 1000, 50)
        for _ in range(STEPS):
            batch = np.where(random.random(50) < 0.8, batch, random.integers(0, 1000, 50))
            yield batch

    counts = counted(batches())
    assert counts.same == counts.shifted == 0
    assert counts.kept == pytest.approx(0.8, abs=0.05)
    assert counts.usual < 0.1
    assert counts.returned > 0.05


def test_one_batch_for_ever() -> None:
    counts = counted([np.arange(20)] * 40)
    assert (counts.batches, counts.same, counts.distinct, counts.rows) == (40, 39, 20, 20)
    assert not counts.irregular


@pytest.mark.parametrize("plan", [[5], [2, 1], [80]])
def test_several_steps_on_each_batch_as_planned(plan: list[int]) -> None:
    def batches() -> Iterator[Batch]:
        for number, batch in enumerate(drawn()):
            yield from [batch] * plan[number % len(plan)]

    assert not counted([batch for batch, _ in zip(batches(), range(STEPS), strict=False)]).irregular


def test_data_that_are_replaced_do_not_come_back() -> None:
    counts = counted(np.arange(64) + 64 * (step // 10) for step in range(STEPS))
    assert counts.returned == 0
    assert counts.same / counts.batches == pytest.approx(0.9, abs=0.01)


def test_rows_of_a_growing_buffer_come_back_by_chance() -> None:
    random = np.random.default_rng(0)
    counts = counted(random.integers(0, 64 + step, 64) for step in range(STEPS))
    assert counts.kept - counts.usual < 0.1


def test_windows_that_move_over_a_series() -> None:
    counts = counted(np.arange(step, step + 50) for step in range(STEPS))
    assert counts.kept > 0.9
    assert counts.shifted == 1


def test_unobserved_batches_end_a_run() -> None:
    rows = DrawnRows()
    for step in range(40):
        if step % 4 == 0:
            rows.skip()
        rows.add(np.arange(10, dtype=np.uint64) + 100 * (step // 8), 10)
    assert rows.counts().kept == 0
    assert not rows.counts().irregular


def test_reports_at_some_numbers_of_batches() -> None:
    rows = DrawnRows()
    told = [n for n in range(1, 140) if rows.add(np.arange(8, dtype=np.uint64), 8)]
    assert told == [32, 64, 128]
    assert not rows.is_over
