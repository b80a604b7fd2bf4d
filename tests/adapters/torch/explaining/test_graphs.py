"""Backwards without a graph, through a freed graph, and through overwritten values."""

from __future__ import annotations

import torch
from tests.adapters.torch.explaining.raising import explained, explaining
from torch import nn


def test_a_loss_of_frozen_weights() -> None:
    model = nn.Linear(3, 1).requires_grad_(False)
    with explaining() as told:
        loss = model(torch.zeros(2, 3)).mean()
        found = told(loss.backward)
    assert found.kind == "graph"
    assert "no parameter of Linear (nn.Linear(3, 1)) has requires_grad" in found.sentence
    assert "requires_grad_(True)" in found.fixes[0]


def test_a_loss_that_was_cut_off_names_what_still_has_a_graph() -> None:
    def cut() -> None:
        out = nn.Linear(3, 1)(torch.zeros(2, 3))
        loss = out.detach().mean()
        loss.backward()

    found = explained(cut)
    assert "out has a graph: the graph was cut between there and the loss" in found.sentence


def test_a_loss_of_a_forward_without_grad() -> None:
    def forward() -> None:
        with torch.no_grad():
            loss = nn.Linear(3, 1)(torch.zeros(2, 3)).mean()
        loss.backward()

    found = explained(forward)
    assert "does not depend on any trained weight" in found.sentence
    assert "torch.no_grad()" in found.fixes[0]


def test_a_graph_that_is_used_up_names_who_carries_it() -> None:
    def carry() -> None:
        cell, state = nn.RNNCell(3, 4), torch.zeros(2, 4)
        for _ in range(2):
            state = cell(torch.zeros(2, 3), state)
            loss = state.square().mean()
            loss.backward()

    found = explained(carry)
    assert "among the variables there, state has a graph" in found.sentence
    assert "state.detach()" in found.fixes[0]


def test_weights_that_a_step_has_changed_are_named() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step_too_early() -> None:
        loss = model(torch.zeros(3, 4)).mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        loss.backward()

    found = explained(step_too_early)
    assert "a tensor of shape (4, 1), the shape of 1.weight" in found.sentence
    assert "before any optimizer.step()" in found.fixes[0]


class Overwriting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.sigmoid(self.inner(x))
        h.add_(1)
        return h


def test_an_overwritten_value_is_named_by_its_operation_and_layer() -> None:
    with explaining() as told:
        model = Overwriting()
        loss = model(torch.zeros(2, 3)).mean()
        found = told(loss.backward)
    assert (
        "kept for the gradient of sigmoid, computed after inner (nn.Linear(3, 4)" in found.sentence
    )
    assert "there are in-place operations at" in found.sentence
    assert "clone() before" in found.fixes[0]


def test_where_segments_run_again_no_saved_value_is_asked_for() -> None:
    with explaining() as told:
        model = Overwriting()
        loss = model(torch.zeros(2, 3)).mean()
        told.__closure__[0].cell_contents.tracer.forwards.recomputes = True  # type: ignore[attr-defined]
        found = told(loss.backward)
    assert "kept for the gradient" not in found.sentence
    assert "there are in-place operations at" in found.sentence


def test_a_parameter_that_is_changed_by_hand() -> None:
    weight = nn.Parameter(torch.zeros(3))

    def change() -> None:
        nonlocal weight
        weight -= 1

    found = explained(change)
    assert found.sentence.startswith("`weight -= 1` (")
    assert "weight is float32 (3,)" in found.sentence
    assert "torch.no_grad()" in found.fixes[0]
