from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.adapters.torch.watched import classifier, sgd, train, watched
from torch import nn

from mothtrap.core.facts.workers import RestoredNothing, UnmatchedState, WeightsReturned

State = dict[str, Any]


def restored(keep: Callable[[nn.Module], State], *, steps: int = 3) -> list[RestoredNothing]:
    """Keep a state after two steps, make more steps, restore it, and make another step."""
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, 2)
        kept = keep(model)
        if steps:
            train(model, optimizer, steps)
        model.load_state_dict(kept)
        train(model, optimizer, 1)
    assert seen.failed() == []
    return seen.observed(RestoredNothing)


def test_a_state_that_holds_the_models_own_tensors_restores_nothing() -> None:
    [one] = restored(lambda model: model.state_dict())
    assert (one.step, one.kept_step) == (5, 2)
    assert "test_restores.py" in (one.taken_at or "")
    assert "test_restores.py" in (one.location or "")


def test_a_shallow_copy_restores_nothing_either() -> None:
    assert [one.kept_step for one in restored(lambda model: model.state_dict().copy())] == [2]
    assert [one.kept_step for one in restored(lambda model: dict(model.state_dict()))] == [2]


@pytest.mark.parametrize(
    ("keep", "steps"),
    [
        (lambda model: copy.deepcopy(model.state_dict()), 3),
        (lambda model: {name: value.clone() for name, value in model.state_dict().items()}, 3),
        (lambda model: model.state_dict(), 0),
    ],
)
def test_copies_and_the_newest_state_are_not_told(
    keep: Callable[[nn.Module], State], steps: int
) -> None:
    assert restored(keep, steps=steps) == []


def unmatched(rename: Callable[[State], State], *, strict: bool = False) -> list[UnmatchedState]:
    """Load a renamed state of another model, and make a step."""
    model = classifier()
    with watched() as seen:
        model.load_state_dict(rename(classifier().state_dict()), strict=strict)
        train(model, sgd(model), 2)
    return [one for one in seen.observed(UnmatchedState) if isinstance(one, UnmatchedState)]


def prefixed(state: State) -> State:
    return {f"module.{name}": value for name, value in state.items()}


def test_a_state_with_other_names_is_told() -> None:
    [one] = unmatched(prefixed)
    assert (one.names, one.given, one.shared) == (4, 4, 0)
    assert (one.own, one.other) == ("0.weight", "module.0.weight")
    assert "test_restores.py" in (one.location or "")


def test_a_checkpoint_whose_weights_are_one_level_deeper_is_told() -> None:
    [one] = unmatched(lambda state: {"epoch": 3, "model": state})
    assert (one.given, one.shared, one.own) == (2, 0, "0.weight")


@pytest.mark.parametrize(
    "rename",
    [
        dict,
        lambda state: {"0.weight": state["0.weight"]},  # a part of the model
        lambda state: {**state, **prefixed(state)},
        lambda _: {},
    ],
)
def test_states_with_some_names_of_the_model_are_not_told(
    rename: Callable[[State], State],
) -> None:
    assert unmatched(rename) == []


def returned(*, deep: bool) -> list[WeightsReturned]:
    """Keep the state of two steps, make three more steps, and load it."""
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, 2)
        kept = model.state_dict()
        kept = copy.deepcopy(kept) if deep else kept
        train(model, optimizer, 3)
        model.load_state_dict(kept)
        train(model, optimizer, 1)
    assert seen.failed() == []
    return [one for one in seen.observed(WeightsReturned) if isinstance(one, WeightsReturned)]


def test_a_return_to_earlier_weights_is_told() -> None:
    [one] = returned(deep=True)
    assert (one.step, one.kept_step) == (5, 2)
    assert "test_restores.py" in (one.location or "")
    assert returned(deep=False) == []
