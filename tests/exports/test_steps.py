"""What of a run holds, and what of it was chosen."""

from __future__ import annotations

import math

from tests.exports.stored import gradient, weight

from mothtrap.exports import Choice
from mothtrap.exports._steps import records, statistics, wholes
from mothtrap.reader.run import Run


def test_steps_that_were_done_again_come_from_the_later_attempt(run: Run) -> None:
    found = [
        (r.attempt, r.record.key.step) for r in records(run, 0, Choice(), {}) if r.record.scalars
    ]
    assert found == [(1, 0), (1, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 6)]
    found = [(r.attempt, r.record.key.step) for r in records(run, 1, Choice(), {})]
    assert found == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_steps_can_be_chosen(run: Run) -> None:
    chosen = records(run, 0, Choice(begin=1, end=3), {})
    assert [r.record.key.step for r in chosen] == [1, 2]


def test_tensors_kept_whole_come_back_as_they_were(run: Run) -> None:
    found = list(wholes(run, 0, Choice(), {}))
    assert [(w.attempt, w.row.key.step, w.tensor.kind) for w in found] == [
        (1, 1, "weight"),
        (1, 1, "gradient"),
        (2, 3, "weight"),
        (2, 3, "gradient"),
        (2, 5, "weight"),
        (2, 5, "gradient"),
    ]
    for kept in found:
        wanted = (weight if kept.tensor.kind == "weight" else gradient)(kept.row.key.step)
        assert kept.values().dtype == wanted.dtype
        assert kept.values().tobytes() == wanted.tobytes()
    assert [w.tensor.kind for w in wholes(run, 1, Choice(tensors="weight:*"), {})] == ["weight"] * 2


def test_statistics_tell_no_finite_element_from_not_captured(run: Run) -> None:
    rows = {
        r.record.key.step: [(t.identity, v) for t, v in statistics(r, Choice())]
        for r in records(run, 0, Choice(begin=3, end=5), {})
    }
    [(name, at_3)], [(_, at_4)] = rows[3], rows[4]
    assert name == "gradient:head.weight"
    assert at_3 == {"count": 4, "nan": 0, "inf": 0, "max": 3, "l2": 13}
    assert at_4.keys() >= at_3.keys()
    assert math.isnan(at_4["max"])


def test_statistics_of_tensors_that_were_not_chosen_are_left_out(run: Run) -> None:
    assert not [
        row
        for r in records(run, 0, Choice(), {})
        for row in statistics(r, Choice(tensors="weight:*"))
    ]
