"""Steps and loss series of training loops, derived from the events of the loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.capture.events import Loop, Step, backward, iteration, joined, step
from tests.capture.loops import LOOPS

from mothtrap.capture.grouper import (
    BackwardBegan,
    BackwardEnded,
    ClosedStep,
    Ended,
    Event,
    GradientsZeroed,
    Grouper,
    RootCalled,
    StepBegan,
    StepCancelled,
    StepEnded,
    StepSkipped,
)

OPTIMIZERS = st.sampled_from(["Adam", "SGD", "SGD#1", "LBFGS"])
SITES = st.sampled_from(["train.py:10", "train.py:20"])
EVENTS = st.lists(
    st.one_of(
        st.builds(BackwardBegan, site=SITES),
        st.just(BackwardEnded()),
        st.builds(StepBegan, optimizer=OPTIMIZERS),
        st.builds(StepEnded, optimizer=OPTIMIZERS),
        st.builds(StepSkipped, optimizer=OPTIMIZERS),
        st.builds(StepCancelled, optimizer=OPTIMIZERS),
        st.builds(RootCalled, root=st.just("Net"), owned=st.booleans()),
        st.builds(GradientsZeroed, optimizer=OPTIMIZERS),
        st.just(Ended()),
    ),
    max_size=80,
)


def fed(events: list[Event], grouper: Grouper | None = None) -> list[ClosedStep]:
    grouper = grouper or Grouper()
    return [closed for event in events if (closed := grouper.feed(event)) is not None]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_loop_is_made_of_its_steps(loop: Loop) -> None:
    closed = fed(loop.events)
    assert [Step.of(step) for step in closed] == loop.steps
    assert [step.step for step in closed] == list(range(len(closed)))


def test_every_loop_has_a_name_of_its_own() -> None:
    assert len({loop.name for loop in LOOPS}) == len(LOOPS) >= 15


@given(EVENTS, st.integers(0, 1000))
def test_any_events_give_consecutive_steps_and_each_loss_at_most_once(
    events: list[Event], first_step: int
) -> None:
    keyed = [
        BackwardBegan(event.site, key) if isinstance(event, BackwardBegan) else event
        for key, event in enumerate(events)
    ]
    grouper = Grouper(first_step)
    closed = fed([*keyed, Ended()], grouper)
    assert [step.step for step in closed] == [first_step + n for n in range(len(closed))]
    assert grouper.step == first_step + len(closed)
    losses = [key for step in closed for series in step.series for key in series.losses]
    assert len(losses) == len(set(losses))
    assert all(isinstance(keyed[key], BackwardBegan) for key in losses)
    for step_ in closed:
        assert step_.optimizers
        assert len(set(step_.optimizers)) == len(step_.optimizers)
        assert step_.micro_batches == max((len(s.losses) for s in step_.series), default=0)


@given(EVENTS)
def test_after_the_end_nothing_of_before_is_left(events: list[Event]) -> None:
    grouper = Grouper()
    fed([*events, Ended()], grouper)
    depth = sum(isinstance(event, BackwardBegan) for event in events)
    fed([BackwardEnded()] * depth, grouper)
    after = fed([*joined(iteration(1), iteration(2)), Ended()], grouper)
    assert [closed.optimizers for closed in after] == [("Adam",), ("Adam",)]
    assert after[1].series[0].losses == (2,)


def test_steps_are_counted_on_from_the_first() -> None:
    closed = fed([*iteration(1), *iteration(2), Ended()], Grouper(first_step=40))
    assert [step.step for step in closed] == [40, 41]


def test_a_series_names_its_call_site_and_its_optimizers() -> None:
    (closed,) = fed([*backward("train.py:12", 7), *step("SGD"), *step("Adam"), Ended()])
    (series,) = closed.series
    assert series.site == "train.py:12"
    assert series.series == "train.py:12 Adam+SGD"


def test_it_says_whether_a_step_runs_and_whether_a_loss_is_known() -> None:
    grouper = Grouper()
    assert grouper.knows_no_loss
    grouper.feed(StepBegan("LBFGS"))
    assert grouper.inside_step
    assert not grouper.knows_no_loss
    grouper.feed(StepEnded("LBFGS"))
    assert not grouper.inside_step
    grouper.feed(Ended())
    assert grouper.knows_no_loss
    grouper.feed(BackwardBegan("loss", 1))
    assert not grouper.knows_no_loss


def test_backwards_that_no_one_steps_on_do_not_pile_up() -> None:
    grouper = Grouper()
    count = Grouper.MAX_PENDING + 10
    (closed,) = fed([*joined(*(backward("loss", k) for k in range(count))), *step("Adam"), Ended()])
    assert closed.micro_batches == Grouper.MAX_PENDING
    assert closed.series[0].losses[-1] == count - 1
    assert grouper.step == 0


@pytest.mark.parametrize("ended", [False, True])
def test_a_step_that_is_cancelled_keeps_its_number_and_counts_as_skipped(ended: bool) -> None:
    grouper = Grouper()
    for event in (BackwardBegan("train.py:10", 1), BackwardEnded(), StepBegan("Adam")):
        assert grouper.feed(event) is None
    assert grouper.losses == (("train.py:10", 1),)
    if ended:  # undone after it had ended
        grouper.feed(StepEnded("Adam"))
    grouper.feed(StepCancelled("Adam"))
    assert not grouper.inside_step
    assert grouper.steps_applied == 0
    closed = grouper.feed(BackwardBegan("train.py:10", 2))
    assert closed is not None
    assert (closed.step, closed.skipped, closed.optimizers) == (0, True, ("Adam",))
    assert grouper.step == 1
    assert grouper.losses == ()


def test_a_step_of_which_one_optimizer_was_cancelled_was_applied() -> None:
    grouper = Grouper()
    for name in ("Muon", "AdamW"):
        grouper.feed(StepBegan(name))
        grouper.feed(StepCancelled(name) if name == "AdamW" else StepEnded(name))
    closed = grouper.feed(Ended())
    assert closed is not None
    assert (closed.skipped, closed.optimizers) == (False, ("Muon", "AdamW"))
