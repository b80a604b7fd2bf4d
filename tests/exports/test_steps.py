"""Contents of a run, and the chosen part of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from tests.exports.stored import (
    DEFINED,
    block,
    ending,
    evaluation,
    gradient,
    info,
    train_step,
    weight,
)
from tests.reader.runs import write_worker

from mothtrap.core.records import Scalar, StepRecord
from mothtrap.exports import Choice, export_run
from mothtrap.exports._steps import records, statistics, wholes
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout


def test_steps_that_were_replayed_come_from_the_later_attempt(run: Run) -> None:
    found = [
        (r.attempt, r.record.key.step) for r in records(run, 0, Choice(), {}) if r.record.scalars
    ]
    assert found == [(1, 0), (1, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 6)]
    found = [
        (r.attempt, r.record.key.step) for r in records(run, 1, Choice(), {}) if r.record.scalars
    ]
    assert found == [(1, 0), (1, 1), (2, 2), (2, 3)]


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


def resumed(folder: Path) -> Run:
    """Store a run evaluated before step 1 and, by the attempt that resumes there, after it."""

    def measured(step: int) -> StepRecord:
        kept = block((0, weight(step)))
        values = (Scalar("loss", "main", float(step)),)
        return replace(evaluation(step, 0), scalars=values, raw=(kept,), defined=DEFINED)

    first = layout.create_run(folder / "x", info("x", 1))
    write_worker(first, train_step(0, first=True), measured(1))
    second = layout.create_attempt(folder / "x", info("x", 2))
    write_worker(second, train_step(1, first=True), measured(2), ending(2))
    return open_run(folder / "x")


def test_evaluations_of_two_attempts_are_files_of_their_own(tmp_path: Path) -> None:
    export_run(resumed(tmp_path), "safetensors", tmp_path / "out")
    names = ["eval-00000001-00000000", "eval-00000002-00000000", "step-00000001"]
    files = sorted((tmp_path / "out" / "w0").iterdir())
    assert [path.stem for path in files] == names
    for path, step in zip(files, (1, 2), strict=False):
        assert weight(step).tobytes() in path.read_bytes()


def test_evaluations_of_two_attempts_are_drawn_one_after_another(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    export_run(resumed(tmp_path), "tensorboard", tmp_path / "out")
    found = EventAccumulator(str(tmp_path / "out" / "w0")).Reload()
    points = [(point.step, point.value) for point in found.Scalars("eval/loss/main")]
    assert points == [(1, 1.0), (2, 2.0)]
    assert [point.step for point in found.Tensors("eval/weight/head.weight")] == [0, 1]
