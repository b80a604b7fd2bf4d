from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, GeneratorsShared, LoaderBegan
from mothtrap.core.findings import Severity
from mothtrap.rules.workers_draw_alike import workers_draw_alike

SHARED = GeneratorsShared(
    step=0, loader="loader 1", workers=4, generators=("Rows.rng",), location="train.py:9"
)


def began(workers: int = 4) -> LoaderBegan:
    return LoaderBegan(step=0, loader="loader 1", sampler="shuffled", workers=workers)


def passed(*, trained: bool = True, repeated: int = 0) -> BatchesLoaded:
    return BatchesLoaded(
        step=9,
        loader="loader 1",
        sampler="shuffled",
        workers=4,
        pass_number=1,
        batches=9,
        repeated=repeated,
        ended=True,
        trained=trained,
    )


def test_a_generator_that_all_workers_copy() -> None:
    [finding] = workers_draw_alike().check(window(began(), passed(), SHARED))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "the 4 workers of loader 1 each begin with a copy of `Rows.rng`" in finding.message
    assert "again in each epoch" in finding.message


def test_a_function_that_seeds_all_workers_alike() -> None:
    seeded = GeneratorsShared(step=0, loader="loader 1", workers=2, seeded_by="seed_worker")
    [finding] = workers_draw_alike().check(window(began(), passed(), seeded))
    assert finding.severity is Severity.INFO
    assert "`seed_worker` sets the same seed in each of the 2 workers" in finding.message
    [finding] = workers_draw_alike().check(window(began(), passed(repeated=9), seeded))
    assert finding.severity is Severity.WARNING
    assert "worker_id" in finding.fixes[0]


def test_evaluation_loaders_are_not_judged() -> None:
    assert workers_draw_alike().check(window(began(), passed(trained=False), SHARED)) == []
    assert workers_draw_alike().check(window(began(), passed())) == []


def test_what_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable):
        workers_draw_alike().check(window(began(workers=1), passed()))
    with pytest.raises(NotEnoughData):
        workers_draw_alike().check(window(began(), SHARED))
