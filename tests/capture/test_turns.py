"""Which streams are due is the same whether schedules are asked at each step or not."""

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
def test_streams_are_due_when_their_schedules_say_so_at_steps_in_any_order(
    schedules: list[Schedule], steps: list[int]
) -> None:
    streams = [stream(str(n), {Mode.TRAIN: each}) for n, each in enumerate(schedules)]
    turns = Turns(streams, Mode.TRAIN)
    for step in [*steps, *sorted(steps), *range(40)]:
        assert turns.due(step) == [s for s in streams if s.schedules[Mode.TRAIN].is_due(step)]


def test_each_mode_has_turns_of_its_own() -> None:
    both = stream("both", {Mode.TRAIN: Schedule(every=3), Mode.EVAL: Schedule(every=2)})
    train = stream("train", {Mode.TRAIN: Schedule()})
    in_training, in_evaluation = (Turns([both, train], mode) for mode in (Mode.TRAIN, Mode.EVAL))
    due = [in_training.due(step) for step in range(4)]
    assert due == [[both, train], [train], [train], [both, train]]
    assert [in_evaluation.due(step) for step in range(3)] == [[both], [], [both]]
