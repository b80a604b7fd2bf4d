"""Fast path: outputs of calls on it are unchanged and recorded."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from mothtrap.adapters.torch.forward import fast_path

Tensor = torch.Tensor

pytestmark = pytest.mark.skipif(
    fast_path.compiled is None, reason="the package was built without a C compiler"
)
LAYER, ROOT = nn.Identity(), nn.Identity()


class Way:
    """A fast path to a method, and what it reports."""

    def __init__(self) -> None:
        self.told: list[tuple[nn.Module, Any]] = []
        made = fast_path.fast_path(lambda *told: self.told.append(told))
        assert made is not None
        self.fast_path = made

    def open(self, *, keeps: bool = True, room: int = 1000) -> None:
        self.fast_path.open(ROOT, keeps, room, None)

    def call(self, value: Any, **named: Any) -> Any:
        return self.fast_path(method, LAYER, value, **named)


def method(module: nn.Module, value: Any, *, doubled: bool = False) -> Any:
    if value is None:
        raise KeyError("none")
    return value * 2 if doubled else value


def test_only_parts_in_the_thread_that_opened_it_pass() -> None:
    way = Way()
    assert not way.fast_path.passes(LAYER)
    way.open()
    assert way.fast_path.passes(LAYER)
    assert not way.fast_path.passes(ROOT)
    elsewhere: list[bool] = []
    thread = threading.Thread(target=lambda: elsewhere.append(way.fast_path.passes(LAYER)))
    thread.start()
    thread.join()
    assert elsewhere == [False]
    way.fast_path.close()
    assert not way.fast_path.passes(LAYER)


def test_arguments_exceptions_and_other_results_pass_as_they_are() -> None:
    way = Way()
    way.open()
    assert way.call(torch.ones(2), doubled=True).tolist() == [2.0, 2.0]
    assert way.fast_path(method, LAYER, value=(1, 2)) == (1, 2)
    with pytest.raises(KeyError, match="none"):
        way.call(None)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        way.fast_path(method, LAYER)
    with pytest.raises(TypeError, match="expected a method and its module"):
        way.fast_path(method)
    assert way.told == [(LAYER, (1, 2))]
    [(module, _, values, *_)] = way.fast_path.close()
    assert module() is LAYER
    assert values is not None
    assert values.tolist() == [2.0, 2.0]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_values_are_kept_without_their_graph_as_far_as_there_is_room() -> None:
    way = Way()
    way.open(room=100)
    given = [torch.ones(20) * torch.ones(20, requires_grad=True), torch.ones(20)]
    given += [torch.eye(2).to_sparse(), torch.nested.nested_tensor([torch.ones(2)]), torch.ones(5)]
    for value in given:
        way.call(value)
    assert way.fast_path.room == 0
    noted = way.fast_path.close()
    assert [output() for _, output, *_ in noted] == given
    assert [values is not None for _, _, values, *_ in noted] == [True, False, False, False, True]
    assert not noted[0][2].requires_grad  # type: ignore[union-attr]


def test_what_comes_back_after_it_was_closed_is_told() -> None:
    way, value = Way(), torch.ones(2)
    way.open()

    def closes(_: nn.Module) -> Tensor:
        way.fast_path.close()
        way.open()
        return value

    way.fast_path(closes, LAYER)
    assert way.told == [(LAYER, value)]
    assert way.fast_path.close() == []


def test_modes_of_the_user_see_nothing_and_what_returns_inside_of_them_is_told() -> None:
    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, *_: Any) -> Any:
            raise AssertionError("an operation was seen")

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, *_: Any) -> Any:
            raise AssertionError("an operation was seen")

    way, value = Way(), torch.ones(2)
    way.open()
    for mode in (Functions(), Operations()):
        with mode:
            assert way.call(value) is value
    assert way.told == [(LAYER, value)] * 2
    assert way.fast_path.close() == []


def test_nothing_is_held_longer_than_it_is_told() -> None:
    way = Way()
    gc.collect()  # garbage of other tests
    before = sys.getrefcount(LAYER), sys.getrefcount(torch.Tensor)
    way.open(keeps=False)
    for _ in range(100):
        way.call(torch.ones(2))
        way.call((1,))
    assert (way.fast_path.close(), way.told) == ([], [])
    way.open()
    for _ in range(100):
        way.call(torch.ones(2))
    noted = way.fast_path.close()
    gone = weakref.ref(noted[0][2])
    noted.clear()
    assert gone() is None
    assert (sys.getrefcount(LAYER), sys.getrefcount(torch.Tensor)) == before
    reference = weakref.ref(way)
    del way
    gc.collect()
    assert reference() is None


def test_a_forward_without_end_is_noted_in_part() -> None:
    way, value = Way(), torch.ones(0)
    way.open()
    for _ in range(1 << 16):
        way.call(value)
    way.call(value)
    assert len(way.fast_path.close()) == 1 << 16


def test_the_questions_to_torch_that_it_asks_are_answered() -> None:
    assert torch._C._functorch.peek_interpreter_stack() is None
    assert torch._C._get_tracing_state() is None
    asked: list[object] = []

    def asks(x: Tensor) -> Tensor:
        asked.append(torch._C._functorch.peek_interpreter_stack())
        return x

    torch.func.vmap(asks)(torch.ones(2))
    assert asked[0] is not None


def looked_at(values: list[Tensor], look: Any, *, of: nn.Module = LAYER) -> tuple[Any, Any]:
    """A fast path that inspects the outputs of a module, and the outputs it has recorded."""
    torch_questions = torch._C._functorch.peek_interpreter_stack, torch._C._get_tracing_state
    made = fast_path.compiled.Passage(
        lambda *_: None, Tensor, torch.strided, Tensor.detach, *torch_questions, look, ()
    )
    made.open(ROOT, True, 100, None, set(), {id(of)})
    for value in values:
        made(method, LAYER, value)
    return made, made.take()


def test_outputs_of_some_modules_are_looked_at_before_anybody_can_write_to_them() -> None:
    value = torch.ones(2)
    made, noted = looked_at([value, torch.zeros(2)], lambda output: bytes([int(output[0])]))
    value.mul_(7)
    assert [entry[4] for entry in noted] == [b"\1", b"\0"]
    assert made.spent_s > 0.0
    made, noted = looked_at([value], lambda _: b"seen", of=ROOT)
    assert ([entry[4] for entry in noted], made.spent_s) == ([None], 0.0)


def test_what_finds_no_room_is_not_looked_at() -> None:
    seen: list[Tensor] = []
    _, noted = looked_at([torch.ones(20), torch.ones(20)], seen.append)
    assert (len(noted), len(seen)) == (1, 1)


def test_a_look_that_fails_finds_nothing_and_one_that_is_interrupted_is_the_users() -> None:
    def fails(_: Tensor) -> bytes:
        raise error

    error: BaseException = ValueError()
    _, noted = looked_at([torch.ones(2)], fails)
    assert [entry[4] for entry in noted] == [None]
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        looked_at([torch.ones(2)], fails)


def test_where_nothing_looks_nothing_is_found() -> None:
    _, noted = looked_at([torch.ones(2)], None)
    assert [entry[4] for entry in noted] == [None]
