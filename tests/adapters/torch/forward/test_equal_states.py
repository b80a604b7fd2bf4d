from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.evaluations import EqualStates

Following = Callable[[torch.Tensor], torch.Tensor]


def found(
    following: Following, *, own: bool = False, target_first: bool = False, still: bool = False
) -> int:
    """Return the number of steps reported with equal states in Q-learning, or 0."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    target_model = model if own else copy.deepcopy(model)
    first = torch.randn(16, 4)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(16):
            state = first.clone() if still else torch.randn(16, 4)
            after = following(state)
            values = model(state)[:, 0] if not target_first else state
            with torch.no_grad():
                target = torch.randn(16) + 0.9 * target_model(after).max(1).values
            values = model(state)[:, 0] if target_first else values
            optimizer.zero_grad()
            F.mse_loss(values, target).backward()
            optimizer.step()
        assert seen.failed() == []
        every = [one for one in seen.observed(EqualStates) if isinstance(one, EqualStates)]
    return every[0].steps if every else 0


@pytest.mark.parametrize("target_first", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_a_copy_of_the_state_is_found_in_place_of_the_next_state(
    own: bool, target_first: bool
) -> None:
    assert found(torch.clone, own=own, target_first=target_first) == 8


def test_the_same_tensor_is_that_of_a_teacher() -> None:
    assert found(lambda state: state) == 0


def test_next_states_of_their_own_are_fine() -> None:
    assert found(lambda state: state + 0.1) == 0


def test_a_world_that_never_changes_is_fine() -> None:
    assert found(torch.clone, still=True) == 0


def test_a_teacher_that_receives_equal_copies_of_the_rows_is_fine() -> None:
    student = nn.Linear(4, 3)
    teacher = copy.deepcopy(student)
    with watched() as seen:
        optimizer = sgd(student)
        for _ in range(16):
            rows = torch.randn(16, 4)
            copies = rows.clone()
            with torch.no_grad():
                target = teacher(copies)
            F.mse_loss(student(rows), target).backward()
            optimizer.step()
        assert seen.observed(EqualStates) == []


def test_an_action_that_is_chosen_with_a_graph_is_not_compared() -> None:
    critic = nn.Linear(4, 1)
    copied = copy.deepcopy(critic)
    with watched() as seen:
        optimizer = sgd(critic)
        for _ in range(16):
            critic(torch.randn(1, 4))
            state = torch.randn(16, 4)
            after = state.clone()
            with torch.no_grad():
                target = torch.randn(16, 1) + 0.9 * copied(after)
            optimizer.zero_grad()
            F.mse_loss(critic(state), target).backward()
            optimizer.step()
        [one] = seen.observed(EqualStates)
    assert isinstance(one, EqualStates)
    assert one.steps == 8
