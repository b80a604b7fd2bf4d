"""Mixtures of experts are recognized by their structure, and nothing else is taken for one."""

from __future__ import annotations

import torch
from torch import nn

from mothtrap.adapters.torch.layers.router_choices import choices, routers


class Mixture(nn.Module):
    """A linear layer beside a list of as many members as it has outputs."""

    def __init__(self, members: list[nn.Module | None]) -> None:
        super().__init__()
        self.gate = nn.Linear(3, len(members))
        self.members = nn.ModuleList(members)


def test_a_linear_layer_beside_its_experts_is_a_router() -> None:
    model = Mixture([nn.Linear(3, 3), nn.Linear(3, 3)])
    assert routers(model) == {id(model.gate): "members"}


def test_members_without_weights_are_not_experts() -> None:
    assert not routers(Mixture([nn.ReLU(), nn.ReLU()]))


def test_a_list_that_holds_none_in_place_of_modules_is_passed_over() -> None:
    assert not routers(Mixture([None, None]))


def test_each_row_counts_for_the_expert_with_the_highest_score() -> None:
    counts, rows = choices(torch.tensor([[0.0, 1.0, 2.0], [5.0, 1.0, 2.0], [0.0, 1.0, 3.0]]))
    assert counts.tolist() == [1, 0, 2]
    assert rows == 3
