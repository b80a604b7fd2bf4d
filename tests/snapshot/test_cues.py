"""Recorded events are matched with the actions of a script that runs again."""

from __future__ import annotations

import pytest

from mothtrap.core.snapshots import BatchHanded, ForwardCalled, LossCalled, RecordedStep
from mothtrap.snapshot.cues import Cues


def batch(value: int, loader: int = 0, site: str = "train.py:9") -> BatchHanded:
    return BatchHanded(loader=loader, site=site, value=value, rng=f"rng of batch {value}")


def forward(
    args: int, site: str = "train.py:10", root: str = "Net", *, trains: bool = True
) -> ForwardCalled:
    return ForwardCalled(root=root, site=site, args=args, kwargs=None, trains=trains)


def loss(args: int, site: str = "train.py:11") -> LossCalled:
    return LossCalled(site=site, function="mse_loss", args=args)


def steps(*events: object, step: int = 7) -> RecordedStep:
    return RecordedStep(step=step, events=events)  # type: ignore[arg-type]


def test_events_are_answered_in_order() -> None:
    cues = Cues([steps(batch(1), forward(1), batch(2), forward(2))])
    for number in (1, 2):
        handed = cues.batch(0, "train.py:9")
        assert handed is not None
        assert handed.value == number
        called = cues.forward("Net", "train.py:10", trains=True)
        assert called is not None
        assert called.args == number
    assert cues.batch(0, "train.py:9") is None


def test_another_loader_at_the_same_place_gives_its_own_batches_before_the_step() -> None:
    cues = Cues([steps(batch(1, loader=1), forward(1))])
    assert cues.batch(0, "train.py:9") is None
    assert cues.forward("Net", "train.py:10", trains=False) is None  # an evaluation
    assert not cues.begun
    assert cues.batch(1, "train.py:9") is not None


def test_a_loader_that_is_made_anew_in_each_epoch_is_passed_over_but_its_random_state_is_not() -> (
    None
):
    cues = Cues([steps(batch(1, loader=5), forward(1))])
    assert cues.batch(0, "train.py:9") is None
    called = cues.forward("Net", "train.py:10", trains=True)
    assert called is not None
    assert cues.passed_rng() == "rng of batch 1"
    assert cues.passed_rng() is None


def test_losses_are_found_by_place_and_told_once() -> None:
    cues = Cues([steps(forward(1), loss(1), forward(2), loss(2))])
    assert cues.loss("mse_loss", "train.py:11") is None, "before the step a loss is the script's"
    cues.forward("Net", "train.py:10", trains=True)
    answers = [cues.loss("mse_loss", "train.py:11") for _ in range(3)]
    assert [answer.args if answer else None for answer in answers] == [1, 2, None]
    assert cues.loss("mse_loss", "elsewhere.py:1") is None


def test_a_step_is_under_way_only_when_something_of_it_was_matched() -> None:
    cues = Cues([steps(forward(1), step=6), steps(forward(2), step=7)])
    assert not cues.has_begun
    cues.forward("Net", "train.py:10", trains=True)
    assert cues.has_begun
    assert not cues.is_last
    cues.stepped()
    assert not cues.has_begun
    called = cues.forward("Net", "train.py:10", trains=True)
    assert called is not None
    assert (called.args, cues.is_last) == (2, True)


def test_a_step_without_cues_is_the_first_one() -> None:
    assert Cues([steps(loss(1))]).has_begun


def test_what_was_reached_instead_is_told() -> None:
    cues = Cues([steps(batch(1), forward(1))])
    cues.forward("Other", "train.py:3", trains=True)
    cues.batch(0, "train.py:2")
    assert cues.reached == ["a call to Other at train.py:3", "a batch of loader 0 at train.py:2"]


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one recorded step"):
        Cues([])
