"""Intervals of steps in which facts could be detected, and what adapters can report."""

from __future__ import annotations

from mothtrap.capture.readiness import Looks
from mothtrap.core.fact import Fact
from mothtrap.core.facts.layers import DataTaken, UnitInputs
from mothtrap.core.facts.looks import AdapterReports, Cannot, Looked
from mothtrap.core.facts.losses import LossCall, LossSeries
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.needs import Need
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode

CALLS = (LossCall,)
LAYERS = (DataTaken, UnitInputs)


def run(looks: Looks, by_step: dict[int, list[tuple[type[Fact], ...]]], steps: int) -> list[Fact]:
    """Close steps from 0 on with the given observers ready; return what was reported."""
    told: list[Fact] = []
    for step in range(steps):
        for facts in by_step.get(step, ()):
            looks.stood_ready(facts, step)
        told += looks.close(step)
    return told


def test_an_interval_is_told_when_it_begins_and_at_the_end() -> None:
    looks = Looks()
    assert run(looks, {step: [CALLS] for step in range(500)}, 500) == [
        Looked(step=0, facts=("LossCall",), first=0, last=0, how_many=1)
    ]
    assert looks.end(500) == [
        Looked(step=500, facts=("LossCall",), first=0, last=499, how_many=500)
    ]


def test_facts_with_the_same_steps_are_told_together() -> None:
    told = run(Looks(), {0: [CALLS, LAYERS]}, 1)
    facts = ("DataTaken", "LossCall", "UnitInputs")
    assert told == [Looked(step=0, facts=facts, first=0, last=0, how_many=1)]


def test_a_broken_interval_is_told_once() -> None:
    looks = Looks()
    told = run(looks, {step: [CALLS] for step in range(100)}, 500)
    assert told[1:] == [
        Looked(step=127, facts=("LossCall",), first=0, last=99, how_many=100, missed=28)
    ]
    (last,) = looks.end(500)
    assert isinstance(last, Looked)
    assert (last.how_many, last.missed) == (100, 400)


def test_steps_that_are_not_recorded_break_nothing() -> None:
    looks = Looks()
    for step in (0, 1, 50, 51, 100, 101):
        looks.stood_ready(CALLS, step)
        looks.close(step)
    (last,) = looks.end(102)
    assert last == Looked(step=102, facts=("LossCall",), first=0, last=101, how_many=6)


def test_an_observer_that_is_asked_twice_in_a_step_looked_once() -> None:
    looks = Looks()
    run(looks, {0: [CALLS, CALLS], 1: [CALLS]}, 2)
    (last,) = looks.end(2)
    assert isinstance(last, Looked)
    assert (last.how_many, last.missed) == (2, 0)


def test_what_an_adapter_can_report_is_told_once() -> None:
    looks, can = Looks(), Reports(scalars=frozenset({"loss"}), facts=frozenset({LossCall}))
    for step in range(3):
        looks.reports("toy", can, step)
    told = [*looks.close(2), *looks.close(3)]
    assert told == [AdapterReports(step=0, adapter="toy", scalars=("loss",), facts=("LossCall",))]


def test_what_an_adapter_cannot_report_is_told_with_the_reason() -> None:
    looks = Looks()
    looks.cannot("toy", "no evals were passed", Reports(modes=frozenset({Mode.EVAL})), 4)
    assert looks.close(4) == [
        Cannot(step=4, adapter="toy", why="no evals were passed", modes=(Mode.EVAL,))
    ]


def test_only_what_a_rule_or_a_reader_needs_is_needed() -> None:
    looks = Looks([Need(facts=(LossCall,)), Need(facts=(ClippedLate,), each_step=True)])
    assert LossCall in looks.needed
    assert LossSeries in looks.needed, "readers need it"
    assert DataTaken not in looks.needed
    assert ClippedLate in looks.needed_each_step
    assert LossCall not in looks.needed_each_step


def test_without_needs_every_fact_is_needed() -> None:
    assert {DataTaken, LossCall} <= Looks().needed


def test_steps_of_another_adapter_break_nothing() -> None:
    looks = Looks()
    for step in range(200):
        own = "torch" if step < 100 else "trees"
        looks.reports(own, Reports(), step)
        looks.stood_ready(CALLS, step, own)
        looks.close(step)
    first, second = (fact for fact in looks.end(200) if isinstance(fact, Looked))
    assert (first.adapter, first.last, first.how_many, first.missed) == ("torch", 99, 100, 0)
    assert (second.adapter, second.first, second.how_many, second.missed) == ("trees", 100, 100, 0)


def test_an_observer_that_is_ready_before_another_adapter_ends_its_step_missed_none() -> None:
    looks = Looks()
    looks.reports("torch", Reports(), 0)
    looks.stood_ready(LAYERS, 1, "trees")
    looks.close(0)
    looks.reports("trees", Reports(), 1)
    looks.close(1)
    (trees,) = (fact for fact in looks.end(2) if isinstance(fact, Looked))
    assert (trees.adapter, trees.how_many, trees.missed) == ("trees", 1, 0)
