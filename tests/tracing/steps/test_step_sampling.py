"""Steps are not watched until something has to be observed."""

from __future__ import annotations

import pytest

from mothtrap.core.facts.captures import Unwatched
from mothtrap.testing.adapters import Process
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.steps.step_sampling import ALIKE_STEPS, Rests

OWNER, OTHER = object(), object()
PLANNED = 50


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    made = Process("numpy", overhead=0.02)
    monkeypatch.setattr(made.recorder, "next_watched", lambda step: step + 1 + PLANNED)
    monkeypatch.setattr(made.recorder.sampler, "long_s", lambda: float("inf"))
    return made


def sampled(process: Process, *, may: bool = True, kin: frozenset[str] = frozenset({"x"})) -> Rests:
    job = AdapterJob(process.job, "x")
    rests = Rests(job, kin, lambda: may)
    for _ in range(ALIKE_STEPS + 1):
        job.step()
        rests.watched(OWNER, plain=True)
    return rests


def unwatched(process: Process) -> list[tuple[int, int]]:
    process.end()
    found = [fact for fact in process.facts() if isinstance(fact, Unwatched)]
    return [(fact.step, fact.last_step) for fact in found]


def test_a_rest_ends_where_it_was_planned_to(process: Process) -> None:
    rests = sampled(process)
    made = 0
    while rests.on and rests.passes(OWNER):
        rests.passed()
        made += 1
    assert made == PLANNED
    first = ALIKE_STEPS + 1
    assert unwatched(process) == [(first, first + PLANNED - 1)]


def test_another_training_ends_it(process: Process) -> None:
    rests = sampled(process)
    assert rests.passes(OWNER)
    rests.passed()
    assert not rests.passes(OTHER)
    assert not rests.on
    rests.watched(OTHER, plain=True)
    assert not rests.on
    first = ALIKE_STEPS + 1
    assert unwatched(process) == [(first, first)]


def test_a_value_that_is_logged_ends_it(process: Process) -> None:
    rests = sampled(process)
    rests.passed()
    process.recorder.logs(False)
    assert not rests.on


def test_nothing_rests_while_something_waits_or_others_take_part(process: Process) -> None:
    assert not sampled(process, may=False).on
    assert not sampled(process, kin=frozenset({"y"})).on
