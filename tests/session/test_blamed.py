"""Guilty rows are reported as the samples that they are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from mothtrap.core.errors import RunNotFoundError
from mothtrap.core.replays import ReplayResult
from mothtrap.core.snapshots import Snapshot
from mothtrap.reader.samples.sample_index import BatchOfSamples, Sample, StepSamples
from mothtrap.session import blamed

FOUND = ReplayResult(reached=True, rows=(1,), batch_rows=2, told=("row 1 alone reproduces it",))


def batch(*samples: Sample, sure: bool = True) -> BatchOfSamples:
    told = SimpleNamespace(rows=len(samples), sure=sure)
    return BatchOfSamples(told=told, samples=samples, data=())  # type: ignore[arg-type]


def named(
    monkeypatch: pytest.MonkeyPatch, result: ReplayResult, *batches: BatchOfSamples
) -> ReplayResult:
    steps = (
        StepSamples(step=7, worker=0, attempt=1, batches=batches),
        StepSamples(step=7, worker=1, attempt=1, batches=(batch(Sample(0, 8), Sample(0, 9)),)),
    )
    opened = SimpleNamespace(samples=SimpleNamespace(at=lambda step: steps))
    monkeypatch.setattr(blamed, "open_run", lambda run: opened)
    snapshot: Snapshot = SimpleNamespace(step=7, attempt=1)  # type: ignore[assignment]
    [again] = blamed.with_samples(Path("run"), snapshot, [result])
    return again


def test_a_row_is_the_sample_of_its_own_workers_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    again = named(monkeypatch, FOUND, batch(Sample(0, 40), Sample(0, 41, "img_41.png")))
    assert again.samples == ("41 (img_41.png)",)
    assert again.told[-1] == "row 1 is sample 41 (img_41.png) of the data"


def test_a_batch_that_is_known_by_its_size_alone_is_named_with_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = named(monkeypatch, FOUND, batch(Sample(0, 40), Sample(0, 41), sure=False))
    assert again.told[-1] == "row 1 is probably sample 41 of the data"


def test_rows_of_micro_batches_of_one_size_may_be_several(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = batch(Sample(0, 3), Sample(0, 4)), batch(Sample(0, 5), Sample(0, 6))
    other = batch(Sample(0, 1), Sample(0, 2), Sample(0, 0))
    assert named(monkeypatch, FOUND, first, other, second).samples == ("4 or 6",)


def test_a_row_of_one_micro_batch_is_a_sample_of_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = msgspec.structs.replace(FOUND, micro_batch=1)
    first, second = batch(Sample(0, 3), Sample(0, 4)), batch(Sample(0, 5), Sample(0, 6))
    again = named(monkeypatch, found, first, second)
    assert again.samples == ("6",)
    assert again.told[-1] == "row 1 of micro-batch 1 is sample 6 of the data"


def test_a_row_without_index_is_known_by_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    again = named(monkeypatch, FOUND, batch(Sample(digest="ab"), Sample(digest="cd")))
    assert again.samples == ("digest cd",)
    assert again.told[-1] == "row 1 has the digest cd: mothtrap samples --seen cd"


def test_nothing_is_said_of_rows_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(monkeypatch, FOUND) == FOUND
    assert named(monkeypatch, FOUND, batch(Sample(0, 1))) == FOUND
    blameless = ReplayResult(reached=True)
    assert named(monkeypatch, blameless, batch(Sample(0, 1), Sample(0, 2))) == blameless


def test_a_run_whose_samples_cannot_be_read_leaves_results_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(run: Path) -> None:
        raise RunNotFoundError("gone")

    monkeypatch.setattr(blamed, "open_run", fail)
    snapshot: Snapshot = SimpleNamespace(step=7, attempt=1)  # type: ignore[assignment]
    assert blamed.with_samples(Path("run"), snapshot, [FOUND]) == (FOUND,)
