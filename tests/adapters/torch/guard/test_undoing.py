"""Changes of an optimizer are undone in place, bit for bit."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.adapters.torch.guard.guarded_loops import ClosureTwice, flat
from torch import nn, optim

from mothtrap.adapters.torch.guard.undoing import Kept, evaluates_once


def stepped(optimizer: optim.Optimizer, parameters: list[nn.Parameter], steps: int) -> None:
    for _ in range(steps):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = sum((p**4).sum() for p in parameters)
            assert isinstance(loss, torch.Tensor)
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("kind", [optim.LBFGS, optim.Adam, ClosureTwice])
def test_state_groups_and_weights_are_put_back(kind: type, before: int) -> None:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3))]
    optimizer = kind(parameters)
    if "lr" in optimizer.param_groups[0]:
        optimizer.param_groups[0]["lr"] = 0.02  # far from convergence when it is undone
    stepped(optimizer, parameters, before)
    weights = [p.detach().clone() for p in parameters]
    state = copy.deepcopy(flat([*optimizer.state.values()]))
    held = [t for t in flat([*optimizer.state.values()]) if isinstance(t, torch.Tensor)]
    kept = Kept(optimizer)
    stepped(optimizer, parameters, 2)
    optimizer.param_groups[0]["lr"] = 17.0
    optimizer.param_groups[0]["new"] = True
    assert not all(map(torch.equal, weights, parameters))
    kept.restore()
    assert all(map(torch.equal, weights, parameters))
    after = flat([*optimizer.state.values()])
    assert len(after) == len(state)
    for now, then in zip(after, state, strict=True):
        assert torch.equal(now, then) if isinstance(now, torch.Tensor) else now == then
    again = [t for t in after if isinstance(t, torch.Tensor)]
    assert all(now is then for now, then in zip(again, held, strict=True))
    assert optimizer.param_groups[0].get("lr") != 17.0
    assert "new" not in optimizer.param_groups[0]
    assert optimizer.param_groups[0]["params"] == parameters or all(
        a is b for a, b in zip(optimizer.param_groups[0]["params"], parameters, strict=True)
    )


def test_a_copy_shares_no_memory_with_what_it_is_of() -> None:
    parameter = nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)
    stepped(optimizer, [parameter], 1)
    kept = Kept(optimizer)
    before = parameter.detach().clone()
    with torch.no_grad():
        parameter.fill_(7.0)
        optimizer.state[parameter]["momentum_buffer"].fill_(7.0)
    kept.restore()
    assert torch.equal(parameter, before)
    assert not torch.equal(optimizer.state[parameter]["momentum_buffer"], torch.full((3,), 7.0))


def test_only_optimizers_known_to_evaluate_once_need_no_copy() -> None:
    parameters = [nn.Parameter(torch.ones(2))]
    assert evaluates_once(optim.AdamW(parameters))
    assert not evaluates_once(optim.LBFGS(parameters))
    assert not evaluates_once(ClosureTwice(parameters))
    assert not evaluates_once(type("Own", (optim.SGD,), {})(parameters))
