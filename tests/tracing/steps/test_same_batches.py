from __future__ import annotations

import numpy as np

from mothtrap.tracing.steps.same_batches import TELL_AT, SameBatches

ROWS = np.arange(12.0).reshape(4, 3)
LABELS = np.array([0, 1, 0, 1])


def test_counts_batches_that_are_all_the_same_and_tells_of_them_twice() -> None:
    seen = SameBatches()
    told = [n for n in range(1, 101) if seen.add(n, [ROWS, LABELS])]
    assert (told, seen.count) == (list(TELL_AT), 100)


def test_a_pass_that_has_another_batch_is_told_no_more() -> None:
    seen = SameBatches()
    for step, labels in enumerate([LABELS] * 3 + [LABELS[::-1]] + [LABELS] * 20):
        assert not seen.add(step, [ROWS, labels])
    assert seen.count == 0


def test_each_pass_is_counted_by_itself() -> None:
    seen = SameBatches()
    for _ in range(30):
        assert not any(seen.add(step, [ROWS, LABELS]) for step in range(TELL_AT[0] - 1))
        seen.begin()
    assert seen.passes == 31


def test_rows_that_are_all_alike_say_nothing() -> None:
    seen = SameBatches()
    assert not any(seen.add(step, [np.ones((4, 3)), LABELS]) for step in range(50))


def test_batches_of_steps_far_apart_are_not_one_after_the_other() -> None:
    """In a stream of 16 batches, every 32nd step is inspected."""
    seen = SameBatches()
    assert not any(seen.add(step, [ROWS, LABELS]) for step in range(0, 1600, 32))
