from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.job import retained_outputs
from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs

LAYER = nn.ReLU()


def test_a_held_output_keeps_its_values_but_not_its_graph() -> None:
    outputs = RetainedOutputs()
    x = torch.ones(3, requires_grad=True)
    node = (hidden := x * 2).grad_fn
    gone = weakref.ref(hidden)
    outputs.add(LAYER, hidden)
    del hidden
    [(module, tensor)] = outputs
    assert module is LAYER
    assert tensor is not None
    assert tensor.tolist() == [2.0, 2.0, 2.0]
    assert not tensor.requires_grad
    assert gone() is None
    del node


def test_beyond_the_limit_outputs_are_held_weakly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_outputs, "RETAINED_BYTES", 100)
    outputs = RetainedOutputs()
    outputs.add(LAYER, torch.ones(25))
    outputs.add(LAYER, torch.ones(1))
    gc.collect()
    assert [tensor is None for _, tensor in outputs] == [False, True]


def test_outputs_are_let_go_at_the_first_root_after_a_backward() -> None:
    outputs = RetainedOutputs()
    outputs.add(LAYER, torch.ones(1))
    outputs.root_called((), {}, keep=True)
    assert len(list(outputs)) == 1
    outputs.used = True
    assert len(list(outputs)) == 1
    outputs.root_called((), {}, keep=True)
    assert list(outputs) == []


def test_forwards_that_no_backward_follows_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_outputs, "RETAINED_OUTPUTS", 10)
    outputs = RetainedOutputs()
    for _ in range(50):
        outputs.root_called((), {}, keep=True)
        outputs.add(LAYER, torch.ones(1))
    assert len(list(outputs)) <= 11


def test_inputs_of_a_root_are_not_kept_alive() -> None:
    outputs = RetainedOutputs()
    x = torch.ones(1)
    outputs.root_called((x, "text"), {}, keep=True)
    assert list(outputs) == [(None, x)]
    del x
    assert list(outputs) == [(None, None)]


def test_a_model_that_is_gone_is_not_kept_alive() -> None:
    outputs, model = RetainedOutputs(), nn.ReLU()
    outputs.add(model, torch.ones(1))
    del model
    assert list(outputs) == []
