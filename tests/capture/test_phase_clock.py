"""The time of training steps is divided among phases, and nothing is lost."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from mothtrap.capture.phase_clock import EVERY, PhaseClock
from mothtrap.capture.step_times import StepTimes
from mothtrap.core.phases import BACKWARD, DATA, OTHER


class Cpu(NamedTuple):
    user: float
    idle: float


class Hand:
    """A clock that is advanced by hand."""

    def __init__(self) -> None:
        self.now_s, self.cpu = 0.0, Cpu(0.0, 0.0)
        self.times = StepTimes(lambda: self.now_s)
        self.phases = PhaseClock(self.times, lambda: self.cpu)
        self.phases.is_used = True
        self.phases.begin(0)

    def goes_on(self, seconds: float, own_s: float = 0.0) -> None:
        self.now_s += seconds
        self.times.own_s += own_s


@pytest.fixture
def hand() -> Hand:
    return Hand()


def test_phases_add_up_to_the_wall_time(hand: Hand) -> None:
    for _ in range(EVERY):
        hand.phases.enter(DATA)
        hand.goes_on(0.01)
        hand.phases.enter(OTHER)
        hand.goes_on(0.001)
        hand.phases.forward_began(True)
        hand.goes_on(0.02, own_s=0.005)
        hand.phases.forward_ended()
        hand.goes_on(0.002)
        hand.phases.enter(BACKWARD)
        hand.goes_on(0.03)
        hand.phases.enter(OTHER)
    hand.cpu = Cpu(3.0, 1.0)
    [timed] = hand.phases.closed(EVERY - 1)
    expected = {
        "data": 1.0,
        "forward": 1.5,
        "loss": 0.2,
        "backward": 3.0,
        "optimizer": 0.0,
        "evaluation": 0.0,
        "save": 0.0,
        "other": 0.1,
        "mothtrap": 0.5,
    }
    assert timed.seconds == pytest.approx(expected)
    assert sum(timed.seconds.values()) == pytest.approx(hand.now_s)
    assert (timed.first_step, timed.step, timed.idle) == (0, EVERY - 1, 0.25)


def test_a_model_that_is_evaluated_is_no_forward_of_the_training(hand: Hand) -> None:
    hand.phases.forward_began(False)
    hand.goes_on(0.5)
    hand.phases.forward_ended()
    hand.goes_on(0.25)
    [timed] = hand.phases.closed(3, last=True)
    assert {name: s for name, s in timed.seconds.items() if s} == {"evaluation": 0.5, "other": 0.25}


def test_a_fact_covers_many_steps_or_half_a_minute(hand: Hand) -> None:
    assert hand.phases.closed(EVERY - 2) == ()
    hand.goes_on(31.0)
    [timed] = hand.phases.closed(EVERY - 2)
    assert hand.phases.closed(2 * EVERY - 3) == ()
    [after] = hand.phases.closed(2 * EVERY - 2)
    assert (timed.step, after.first_step) == (EVERY - 2, EVERY - 1)


def test_without_an_adapter_that_times_phases_nothing_is_reported() -> None:
    hand = Hand()
    hand.phases.is_used = False
    assert hand.phases.closed(EVERY, last=True) == ()
