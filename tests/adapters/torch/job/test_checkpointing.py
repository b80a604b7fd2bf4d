from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import EVERYTHING, batch, same, sgd, watched, whole
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointFunction, checkpoint, checkpoint_sequential

from mothtrap.adapters.torch.job import checkpointing
from mothtrap.core.steps import Mode

Tensor = torch.Tensor


class Segmented(nn.Module):
    """Two segments that run again in the backward; keeps what the first one returned."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.segments = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.5)) for _ in range(2)
        )
        self.own: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for segment in self.segments:
            x = checkpoint(segment, x, use_reentrant=True)
            if segment is self.segments[0]:
                self.own.append(x.detach().clone())
        return self.last(x)


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    x, y = batch()
    optimizer.zero_grad()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def test_the_functions_that_stand_on_the_stack_are_what_they_were() -> None:
    """As in torch 2.13: the names of the static methods, and of the argument `ctx`."""
    for function in (CheckpointFunction.forward, CheckpointFunction.backward):
        assert inspect.isfunction(function)
        assert next(iter(inspect.signature(function).parameters)) == "ctx"


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_first_run_is_one_whose_inputs_want_gradients(wanted: bool) -> None:
    seen: list[bool] = []

    def segment(x: Tensor) -> Tensor:
        seen.append(checkpointing.in_first_run())
        return x * 2

    x = torch.ones(2, requires_grad=wanted)
    checkpoint(segment, x, use_reentrant=True)
    assert seen == [wanted]
    assert not checkpointing.in_first_run()
    assert not checkpointing.in_backward_of_segment()


def test_what_runs_in_a_segment_is_captured_once_and_as_training() -> None:
    model = Segmented()
    with watched(capture=whole("activation", modes=(Mode.TRAIN,))) as seen:
        optimizer = sgd(model)
        for _ in range(3):
            step(model, optimizer)
    assert same(seen.raw("activation:segments.0.2"), model.own)
    assert {f"activation:segments.{i}.{j}" for i in (0, 1) for j in (0, 1, 2)} <= seen.kept()
    assert seen.steps(Mode.EVAL) == []


def test_segments_called_by_the_script_itself_are_training() -> None:
    with watched(capture=EVERYTHING) as seen:
        blocks = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(4)))
        head = nn.Linear(6, 3)
        optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.1)
        for _ in range(3):
            x, y = batch()
            optimizer.zero_grad()
            hidden = checkpoint_sequential(blocks, 2, x.requires_grad_(), use_reentrant=True)
            functional.cross_entropy(head(hidden), y).backward()
            optimizer.step()
    assert seen.steps(Mode.EVAL) == []
    assert [record.key.step for record in seen.steps()] == [0, 1, 2]
    assert set(seen.rows("activation:0.0", "count").values()) == {24.0}


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_an_evaluation_through_segments_is_an_evaluation() -> None:
    model = Segmented()
    with watched(capture=EVERYTHING) as seen:
        optimizer = sgd(model)
        step(model, optimizer)
        with torch.no_grad():
            model(batch()[0])
    assert len(seen.steps(Mode.EVAL)) == 1


def test_gradients_inside_a_segment_are_told_to_be_unseen() -> None:
    model = Segmented()
    with watched(capture=whole("activation_gradient")) as seen:
        step(model, sgd(model))
    assert {name for name in seen.kept() if "segments" in name} == set()
    assert "activation_gradient:first" in seen.kept()
    assert "gradients of activations inside checkpointed segments" in seen.blind()


def test_labels_are_read_where_nothing_has_packed_them() -> None:
    model = Segmented()
    own = []
    with watched(capture=whole("label")) as seen:
        optimizer = sgd(model)
        for _ in range(3):
            step(model, optimizer)
            own.append(batch()[1])
    [name] = seen.names("label")
    assert same(seen.raw(f"label:{name}"), own)


@pytest.mark.parametrize("last_is_segment", [True, False])
def test_a_watched_model_counts_the_backward_of_segments_once(last_is_segment: bool) -> None:
    class Net(Segmented):
        def forward(self, x: Tensor) -> Any:
            out = super().forward(x)
            return out if not last_is_segment else checkpoint(self.end, out, use_reentrant=True)

    model = Net()
    model.end = nn.Linear(3, 3)
    optimizer = sgd(model)
    with watched(model, optimizer, capture=EVERYTHING) as seen:
        for _ in range(4):
            step(model, optimizer)
    assert seen.scalars("micro_batches") == [1.0] * 4
    assert [record.key.step for record in seen.steps()] == [0, 1, 2, 3]
