"""Facts read from the frames of an exception."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.explaining.raising import raised
from torch import nn

from mothtrap.adapters.torch.explaining.scene import Scene, scene_of


def seen(act: Callable[[], object]) -> Scene:
    return scene_of(raised(act))


def test_modules_from_the_outermost_in_with_what_they_were_given() -> None:
    inner, x = nn.Linear(4, 2), torch.zeros(3, 5)
    model = nn.Sequential(nn.Identity(), nn.Sequential(inner))
    scene = seen(lambda: model(x))
    assert [type(call.module).__name__ for call in scene.calls] == [
        "Sequential",
        "Sequential",
        "Linear",
    ]
    assert scene.subject is not None
    assert scene.subject.module is inner
    assert scene.subject.args[0] is x
    assert scene.of_framework
    assert not scene.own
    assert scene.operands == {"x": x}
    assert scene.code == "model(x)"


def test_the_expression_of_a_forward_is_what_failed() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).view(-1, 7) @ self.weight  # type: ignore[operator]

    model = Model()
    model.weight = nn.Parameter(torch.zeros(3))
    scene = seen(lambda: model(torch.zeros(5)))
    assert scene.subject is None
    assert scene.innermost is not None
    assert scene.innermost.module is model
    assert scene.code.startswith("(x + 1).view(")
    assert list(scene.operands) == ["x"]


def test_functions_of_the_framework_keep_their_variables() -> None:
    target = torch.zeros(3, dtype=torch.long)
    scene = seen(lambda: nn.functional.cross_entropy(torch.zeros(4, 2), target))
    found = scene.function("cross_entropy")
    assert found is not None
    assert found.variables["target"] is target
    assert scene.function("nll_loss") is None


def refuse() -> None:
    raise ValueError("no")


@pytest.mark.parametrize("act", [refuse, lambda: nn.Module().register_module("a", refuse())])
def test_a_raise_of_the_users_is_their_own(act: Callable[[], object]) -> None:
    assert seen(act).own


@pytest.mark.parametrize("act", [lambda: {}[1], lambda: torch.zeros(3).view(4)])
def test_what_an_expression_raises_is_not(act: Callable[[], object]) -> None:
    scene = seen(act)
    assert not scene.own
    assert not scene.of_framework


def test_no_code_of_the_users_runs_to_read_an_expression() -> None:
    class Touchy:
        def __init__(self) -> None:
            self.weight = torch.zeros(3)

        @property
        def spring(self) -> torch.Tensor:
            trapped.append("property")
            return self.weight

        def __getitem__(self, key: str) -> torch.Tensor:
            trapped.append("item")
            return self.weight

    trapped: list[str] = []
    touchy = Touchy()
    scene = seen(lambda: touchy.weight @ touchy.spring.view(9) @ touchy["a"])
    assert trapped == ["property"]  # by the expression itself
    assert list(scene.operands) == []
    scene = seen(lambda: touchy.weight.view(9))
    assert list(scene.operands) == ["touchy.weight"]


def test_an_exception_without_frames_has_no_place() -> None:
    scene = scene_of(ValueError("made, not raised"))
    assert (scene.location, scene.code, scene.calls, scene.own) == (None, "", (), False)
