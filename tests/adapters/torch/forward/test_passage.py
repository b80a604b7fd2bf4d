"""The straight way of calls: what is known afterwards is what observing them would have told."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched, whole
from torch import nn
from torch.utils.checkpoint import checkpoint

from mothtrap.adapters.torch.forward import held, passage
from mothtrap.adapters.torch.forward.passage import Passed, StraightWay

Tensor = torch.Tensor
Noted = list[tuple[str, list[float] | None]]

needs_compiled = pytest.mark.skipif(
    passage.make_passage is None, reason="the package was built without a C compiler"
)
ONLY_WEIGHTS = whole("weight")
QUIET_STEP = 40
"""One in which nothing looks at forwards; in the first ones much does, and in all of them where
a parameter that an optimizer has is never reached."""


class Nested(nn.Module):
    """Parts that hand on, change in place, return no tensor, and run without a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True))
        self.memory = nn.LSTM(6, 6)
        self.attention = nn.MultiheadAttention(6, 2)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.last = nn.Sequential(nn.Identity(), nn.Linear(6, 1))

    def forward(self, x: Tensor) -> Tensor:
        x, _ = self.memory(self.first(x))
        x, _ = self.attention(x, x, x, need_weights=False)
        with torch.no_grad():
            fixed = self.frozen(x)
        return self.last(x + fixed)


def forward_of(make: type[nn.Module]) -> Noted:
    """What is held after one forward in which nobody wants activations."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with watched(capture=ONLY_WEIGHTS) as seen:
        for _ in range(QUIET_STEP):
            optimizer.zero_grad()
            out = model(torch.ones(3, 6))
            kept = [
                (type(module).__name__ if module is not None else "", _values(tensor))
                for module, tensor in seen.tracer.forwards.held
            ]
            out.sum().backward()
            optimizer.step()
    return kept


def _values(tensor: Tensor | None) -> list[float] | None:
    return None if tensor is None else tensor.flatten().tolist()


@needs_compiled
@pytest.mark.parametrize("room", [held.HELD_BYTES, 100, 0])
def test_what_is_held_is_the_same_as_if_every_call_were_observed(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "HELD_BYTES", room)
    straight = forward_of(Nested)
    monkeypatch.setattr(passage, "make_passage", None)
    observed = forward_of(Nested)
    assert straight == observed
    assert len(straight) > 8


@needs_compiled
def test_calls_do_go_the_straight_way(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    extend = held.HeldOutputs.extend
    monkeypatch.setattr(
        held.HeldOutputs,
        "extend",
        lambda self, new: (passed.append(len(new)), extend(self, new))[1],
    )
    forward_of(Nested)
    assert max(passed) >= 4


@needs_compiled
def test_values_of_a_transformed_function_are_not_kept_beyond_it() -> None:
    class Mapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return torch.func.vmap(self.inner)(x)

    assert torch._C._functorch.peek_interpreter_stack() is None
    noted = dict(forward_of(Mapped))
    assert noted["Linear"] is None
    assert noted["Mapped"] is not None


@needs_compiled
def test_parts_that_run_again_inside_a_forward_are_not_taken_for_its_own() -> None:
    class Penalized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            x = x.requires_grad_()
            y = checkpoint(self.inner, x, use_reentrant=False)
            (slope,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
            return y.sum() + slope.detach().sum()

    assert [name for name, _ in forward_of(Penalized)] == ["", "Linear", "Penalized"]


@needs_compiled
def test_an_exception_closes_the_way() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.good, self.bad = nn.Linear(6, 6), nn.Linear(6, 6)
            self.fails = False

        def forward(self, x: Tensor) -> Tensor:
            x = self.good(x)
            return self.bad(x[:, :5] if self.fails else x)

    model = Fails()
    optimizer = sgd(model)
    with watched(capture=ONLY_WEIGHTS) as seen:
        for _ in range(QUIET_STEP):
            model(torch.ones(3, 6)).sum().backward()
            optimizer.step()
        model.fails = True
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(torch.ones(3, 6))
        names = [type(module).__name__ for module, _ in seen.tracer.forwards.held if module]
        assert names == ["Linear"]
        assert not seen.tracer.forwards.straight._is_open


class Way:
    """A straight way between two functions, and what it handed on."""

    def __init__(self) -> None:
        self.passed: Passed = []
        self.odd: list[tuple[nn.Module, Any]] = []
        self.straight = StraightWay(self.passed.extend, lambda *told: self.odd.append(told))
        self.call = self.straight.before(self.original, lambda *_: "observed")

    @staticmethod
    def original(module: nn.Module, value: Any, *, doubled: bool = False) -> Any:
        if value is None:
            raise KeyError("none")
        return value * 2 if doubled else value


@needs_compiled
def test_only_calls_of_the_thread_that_opened_it_pass() -> None:
    way, layer, value = Way(), nn.Identity(), torch.ones(2)
    assert way.call(layer, value) == "observed"
    way.straight.open(keeps=True, room=1000)
    assert way.call(layer, value) is value
    elsewhere: list[Any] = []
    thread = threading.Thread(target=lambda: elsewhere.append(way.call(layer, value)))
    thread.start()
    thread.join()
    assert elsewhere == ["observed"]
    way.straight.close()
    assert way.call(layer, value) == "observed"
    [(reference, kept)] = way.passed
    assert (reference(), kept) == (layer, value)


@needs_compiled
def test_arguments_exceptions_and_other_results_pass_as_they_are() -> None:
    way, layer = Way(), nn.Identity()
    way.straight.open(keeps=True, room=1000)
    assert way.call(layer, torch.ones(2), doubled=True).tolist() == [2.0, 2.0]
    assert way.call(layer, value=(1, 2)) == (1, 2)
    with pytest.raises(KeyError, match="none"):
        way.call(layer, None)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        way.call(layer)
    assert way.odd == [(layer, (1, 2))]
    way.straight.close()
    assert len(way.passed) == 1


@needs_compiled
def test_beyond_the_room_and_without_a_plain_layout_values_are_not_kept() -> None:
    way, layer = Way(), nn.Identity()
    way.straight.open(keeps=True, room=100)
    given = [torch.ones(20), torch.ones(20), torch.eye(2).to_sparse(), torch.ones(5)]
    for value in given:
        way.call(layer, value)
    way.straight.close()
    assert [isinstance(kept, weakref.ref) for _, kept in way.passed] == [False, True, True, False]
    assert [kept() for _, kept in way.passed if isinstance(kept, weakref.ref)] == given[1:3]


@needs_compiled
def test_nothing_is_held_longer_than_it_is_told() -> None:
    way, layer = Way(), nn.Identity()
    before = sys.getrefcount(layer), sys.getrefcount(torch.Tensor)
    way.straight.open(keeps=False, room=1000)
    for _ in range(100):
        way.call(layer, torch.ones(2))
        way.call(layer, (1,))
    way.straight.close()
    assert (way.passed, way.odd) == ([], [])
    way.straight.open(keeps=True, room=1000)
    for _ in range(100):
        way.call(layer, torch.ones(2))
    way.straight.close()
    gone = weakref.ref(way.passed[0][1])
    way.passed.clear()
    assert gone() is None
    assert (sys.getrefcount(layer), sys.getrefcount(torch.Tensor)) == before
    reference = weakref.ref(way)
    del way
    gc.collect()
    assert reference() is None
