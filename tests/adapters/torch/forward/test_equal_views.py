from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.evaluations import EqualViews

View = Callable[[torch.Tensor], torch.Tensor]


def found(view: View, *, joined: bool = False, dropout: float | None = None) -> list[EqualViews]:
    """Return the facts about a contrastive training whose second view is `view` of the first."""
    torch.manual_seed(0)
    parts = [nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8)]
    if dropout is not None:
        parts.insert(2, nn.Dropout(dropout))
    encoder = nn.Sequential(*parts)
    with watched() as seen:
        optimizer = sgd(encoder)
        for _ in range(16):
            first = torch.randn(8, 6)
            second = view(first)
            if joined:
                one, two = encoder(torch.cat([first, second])).chunk(2)
            else:
                one, two = encoder(first), encoder(second)
            scores = F.normalize(one, dim=1) @ F.normalize(two, dim=1).t()
            optimizer.zero_grad()
            F.cross_entropy(scores / 0.5, torch.arange(8)).backward()
            optimizer.step()
        assert seen.failed() == []
        return [one for one in seen.observed(EqualViews) if isinstance(one, EqualViews)]


@pytest.mark.parametrize("joined", [False, True])
def test_equal_views_are_found(joined: bool) -> None:
    [one] = found(torch.clone, joined=joined)
    assert (one.steps, one.dropout) == (8, False)


def test_a_dropout_is_told() -> None:
    [one] = found(torch.clone, dropout=0.1)
    assert one.dropout


@pytest.mark.parametrize("joined", [False, True])
def test_views_of_their_own_are_fine(joined: bool) -> None:
    assert found(lambda first: first + 0.1 * torch.randn_like(first), joined=joined) == []


def test_the_same_tensor_twice_is_meant_so() -> None:
    assert found(lambda first: first) == []


def test_a_cell_is_given_the_same_data_again_with_its_state() -> None:
    cell, head = nn.GRUCell(6, 16), nn.Linear(16, 3)
    with watched() as seen:
        optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
        for _ in range(16):
            data, labels = torch.randn(8, 6), torch.randint(3, (8,))
            state = torch.zeros(8, 16)
            for _ in range(3):
                state = cell(data.clone(), state)
            optimizer.zero_grad()
            F.cross_entropy(head(state), labels).backward()
            optimizer.step()
    assert seen.observed(EqualViews) == []
