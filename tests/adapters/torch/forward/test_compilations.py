"""Hidden parts of compiled code are reported; its visible parts are captured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, train, watched
from torch import nn

from mothtrap.adapters.torch.forward.compilations import MAX_NAMED, unseen_parts
from mothtrap.core.facts.captures import Blind

# Dynamo raises these where it reads PyTorch's code
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    """A model without `__len__`; its compiled wrapper raises when its length is requested."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = classifier(classes=6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def _reasons(seen: Seen) -> dict[str, str]:
    return {blind.what: blind.reason for blind in seen.observed(Blind)}


@pytest.mark.parametrize("by_method", [False, True])
def test_a_compiled_model_is_seen_from_outside(by_method: bool) -> None:
    with watched() as seen:
        model: nn.Module = Net()
        optimizer = sgd(model)
        if by_method:
            model.compile(backend="eager")
        else:
            model = torch.compile(model, backend="eager")
        train(model, optimizer, steps=2)
    assert [r for what, r in _reasons(seen).items() if what == "activations inside Net"] == [
        "compiled by torch.compile: only its inputs, outputs, parameters and gradients are visible"
    ]
    for identity in ("activation:Net", "gradient:body.0.weight"):
        assert list(seen.rows(identity, "l2")) == [0, 1]
    assert "body" not in seen.names("activation")


def test_a_part_that_is_compiled_later_is_told_of() -> None:
    with watched() as seen:
        model = Net()
        optimizer = sgd(model)
        train(model, optimizer, steps=1)
        assert seen.blind() == []
        model.body = torch.compile(model.body, backend="eager")
        train(model, optimizer, steps=1)
    assert "activations inside body" in seen.blind()


def test_what_has_no_parts_hides_none() -> None:
    model = Net()
    model.head.compile(backend="eager")
    model.body[0] = torch.compile(model.body[0], backend="eager")
    assert unseen_parts(model) == []
    model.body.compile(backend="eager")
    assert [part for part, _ in unseen_parts(model)] == [model.body]


def test_many_parts_are_told_of_together() -> None:
    with watched() as seen:
        model = nn.Sequential(*(Net() for _ in range(MAX_NAMED + 2)))
        for part in model:
            part.compile(backend="eager")
        sgd(model)
        seen.tracer.forwards.add_root(model)
        train(classifier(), sgd(classifier()), steps=1)
    assert "activations inside 0, 1, 2, 3 and 2 more" in seen.blind()


def test_forwards_inside_a_compiled_function_are_told_of_and_their_model_is_named() -> None:
    with watched() as seen:
        model = Net()
        optimizer = sgd(model)

        @torch.compile(backend="eager")
        def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(model(x), y)

        for _ in range(2):
            optimizer.zero_grad()
            loss_of(*batch()).backward()
            optimizer.step()
    told = [what for what in seen.blind() if what.startswith("forward passes inside")]
    assert len(told) == 1
    assert "loss_of" in told[0]
    assert list(seen.rows("gradient:body.0.weight", "l2")) == [0, 1]


def test_a_compiled_function_around_no_model_is_not_told_of() -> None:
    with watched() as seen:
        model = Net()
        optimizer = sgd(model)
        gelu = torch.compile(lambda x: x * torch.sigmoid(x), backend="eager")
        for _ in range(2):
            optimizer.zero_grad()
            gelu(model(batch()[0])).sum().backward()
            optimizer.step()
    assert [what for what in seen.blind() if what.startswith("forwards")] == []


@pytest.mark.parametrize("way", ["script", "trace"])
def test_a_scripted_model_is_told_of(way: str) -> None:
    with watched() as seen:
        model = Net()
        compiled = (
            torch.jit.script(model) if way == "script" else torch.jit.trace(model, batch()[0])
        )
        train(compiled, sgd(compiled), steps=2)
    ((what, reason),) = _reasons(seen).items()
    # a trace counts as a second one
    assert what in ("activations inside Net", "activations inside Net#1")
    assert reason.startswith("compiled by torch.jit: only its inputs, outputs, parameters")
    assert list(seen.rows("gradient:body.0.weight", "l2")) == [0, 1]


def test_torch_compile_works_as_decorator_and_disabled() -> None:
    with watched() as seen:

        @torch.compile(backend="eager", disable=True)
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        assert doubled(torch.ones(1)).item() == 2
        with pytest.raises(RuntimeError, match="mode or options"):
            torch.compile(lambda x: x, mode="default", options={"max_autotune": True})
        model = classifier()
        train(model, sgd(model), steps=1)
    assert seen.blind() == []
