"""A model is traversed again only when its structure has changed."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.comparing_runs import model_state
from mothtrap.adapters.torch.comparing_runs.model_state import ModelState


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)))


NAMES = [
    *("weight:m.0.weight", "bias:m.0.bias", "weight:m.1.0.weight", "bias:m.1.0.bias"),
    *("weight:m.1.1.weight", "bias:m.1.1.bias"),
    *("buffer:m.1.0.running_mean", "buffer:m.1.0.running_var", "buffer:m.1.0.num_batches_tracked"),
]


def test_parameters_and_buffers_have_kinds_and_names() -> None:
    whole = model()
    state = ModelState(whole, "m.")
    for _ in range(2):
        found = state.tensors()
        assert found is not None
        assert [owner for owner, _ in found] == NAMES
        assert [id(t) for _, t in found] == [id(t) for t in (*whole.parameters(), *whole.buffers())]


def test_it_is_not_walked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ModelState(model := nn.Linear(2, 2), "")
    monkeypatch.setattr(model_state, "_named", None)
    assert model
    assert len(state.tensors() or ()) == len(state.tensors() or ()) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m[0], "weight", nn.Parameter(torch.ones(4, 3))),
        lambda m: setattr(m[0], "bias", None),
        lambda m: m[1].append(nn.Linear(2, 2)),
        lambda m: m.__setitem__(0, nn.Linear(3, 4)),
        lambda m: m[0].register_buffer("seen", torch.zeros(1)),
        lambda m: setattr(m[1][0], "running_mean", torch.ones(4)),
        lambda m: m.__delitem__(1),
        lambda m: m[0].register_parameter("more", nn.Parameter(torch.ones(1))),
    ],
)
def test_a_change_anywhere_shows(change) -> None:
    whole = model()
    state = ModelState(whole, "")
    assert state.tensors() is not None
    assert state.tensors() is not None
    change(whole)
    assert state.tensors() is None


def test_values_may_change() -> None:
    whole = model()
    state = ModelState(whole, "")
    state.tensors()
    with torch.no_grad():
        whole[0].weight.add_(1)
    assert state.tensors() is not None


def test_what_is_lazy_is_left_out_and_asked_for_again() -> None:
    whole = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
    state = ModelState(whole, "")
    assert [owner for owner, _ in state.tensors() or ()] == ["weight:1.weight", "bias:1.bias"]
    assert state.tensors() is None


def test_the_model_is_not_kept_alive() -> None:
    whole = model()
    whole[0].parent = [whole]  # a reference back to the top module
    state, gone = ModelState(whole, ""), weakref.ref(whole)
    state.tensors()
    del whole
    gc.collect()
    assert gone() is None
    assert state.tensors() is None
