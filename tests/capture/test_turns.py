"""Streams that are due at a step, also if not every step is queried."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.schedules import SCHEDULES

from mothtrap.capture.selection import Stream
from mothtrap.capture.turns import Turns
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode


def stream(name: str, schedules: dict[Mode, Schedule]) -> Stream:
    return Stream(
        name=name,
        kinds=("weight",),
        statistics=frozenset({"mean"}),
        matches=lambda _: True,
        schedules=schedules,
    )


@given(
    schedules=st.lists(SCHEDULES, max_size=5),
    steps=st.lists(st.integers(0, 250), max_size=40),
)
def test_streams_are_due_when_their_schedules_named_a_step_since_the_last_one_asked_about(
    schedules: list[Schedule], steps: list[int]
) -> None:
    streams = [stream(str(n), {Mode.TRAIN: each}) for n, each in enumerate(schedules)]
    turns = Turns(streams, Mode.TRAIN)
    before, missed = -1, range(0)
    for step in [*steps, *sorted(steps), *range(40)]:
        if step != before:
            missed = range(before + 1 if 0 <= before < step else step, step + 1)
        assert turns.due(step) == [
            s for s in streams if any(s.schedules[Mode.TRAIN].is_due(each) for each in missed)
        ]
        before = step


def test_who_missed_a_turn_has_the_next_step() -> None:
    rare, once = stream("rare", {Mode.TRAIN: Schedule(every=16)}), Schedule(steps=(3, 30))
    turns = Turns([rare, stream("once", {Mode.TRAIN: once})], Mode.TRAIN)
    due = {step: [s.name for s in turns.due(step)] for step in (5, 10, 20, 21, 40, 41, 48, 50)}
    assert {step: names for step, names in due.items() if names} == {
        20: ["rare"],
        40: ["rare", "once"],
        48: ["rare"],
    }


def test_each_mode_has_turns_of_its_own() -> None:
    both = stream("both", {Mode.TRAIN: Schedule(every=3), Mode.EVAL: Schedule(every=2)})
    train = stream("train", {Mode.TRAIN: Schedule()})
    in_training, in_evaluation = (Turns([both, train], mode) for mode in (Mode.TRAIN, Mode.EVAL))
    due = [in_training.due(step) for step in range(4)]
    assert due == [[both, train], [train], [train], [both, train]]
    assert [in_evaluation.due(step) for step in range(3)] == [[both], [], [both]]
