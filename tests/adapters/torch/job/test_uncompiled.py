"""Code that the user compiles is compiled as without mothtrap, which adds nothing to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, watched
from torch import nn

from mothtrap.adapters.torch.job.uncompiled import frame_uncompiled, uncompiled

dynamo = torch._dynamo
# Dynamo raises these where it reads PyTorch's code
pytestmark = pytest.mark.filterwarnings("ignore")
Compile = Callable[[nn.Module, torch.optim.Optimizer], Callable[..., torch.Tensor]]


class Part(nn.Module):
    """A user-defined module: Dynamo does not compile the forwards of PyTorch's own modules."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(6, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Part(6), Part(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x))


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    dynamo.reset()
    dynamo.utils.counters.clear()
    yield
    dynamo.reset()


def a_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def whole_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    return torch.compile(a_step(model, optimizer), backend="aot_eager")


def optimizer_step(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Callable[..., torch.Tensor]:
    optimizer.step = torch.compile(optimizer.step, backend="aot_eager")
    return a_step(torch.compile(model, backend="aot_eager"), optimizer)


def own_method(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    model.compile(backend="aot_eager")
    return a_step(model, optimizer)


def each_part(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    for part in model.children():
        part.compile(backend="aot_eager")
    return a_step(model, optimizer)


def _train(compile_: Compile) -> tuple[list[float], dict[str, int]]:
    """Train; return the losses and what was compiled for them."""
    dynamo.reset()
    dynamo.utils.counters.clear()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    step = compile_(model, optimizer)
    losses = [step(*batch()).item() for _ in range(4)]
    return losses, dict(dynamo.utils.counters["stats"])


@pytest.mark.parametrize(
    "compile_",
    [optimizer_step, each_part]
    + [pytest.param(compile_, marks=pytest.mark.full) for compile_ in (whole_step, own_method)],
)
def test_a_compiled_step_trains_as_without_us_and_is_seen(compile_: Compile) -> None:
    expected = _train(compile_)
    assert expected[1]["unique_graphs"] >= 1
    with watched() as seen:
        found = _train(compile_)
    assert found == expected
    assert seen.scalars("loss") == found[0]
    for name, _ in Net().named_parameters():
        assert len(seen.rows(f"gradient:{name}", "l2")) == 4


def _graphs_of(hook: Callable[[torch.Tensor], None]) -> int:
    """Return the number of graphs made for a hook that a backward calls in a compiled function."""
    dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    parameter = nn.Parameter(torch.ones(2))
    parameter.register_post_accumulate_grad_hook(hook)
    loss = parameter.sum()
    torch.compile(lambda: loss.backward(), backend=backend)()
    return len(graphs)


def test_marked_code_is_passed_over_and_unmarked_code_is_not() -> None:
    def inner(parameter: torch.Tensor) -> torch.Tensor:
        return parameter.detach() * 2

    def ours(parameter: torch.Tensor) -> None:
        inner(parameter)

    def fresh(function: FunctionType) -> FunctionType:
        function.__code__ = function.__code__.replace()  # marks and graphs are attached to the code
        return function

    assert _graphs_of(fresh(ours)) == 1  # the counterpart: without a mark
    assert _graphs_of(frame_uncompiled(fresh(ours))) == 1  # what it calls
    assert _graphs_of(uncompiled(fresh(ours))) == 0


def test_the_methods_of_a_class_are_marked() -> None:
    @uncompiled
    class Ours:
        def double(self, parameter: torch.Tensor) -> None:
            parameter.detach() * 2

    assert _graphs_of(Ours().double) == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0),
        lambda parameters: nn.functional.cross_entropy(parameters[0], torch.tensor([0, 1, 2, 0])),
    ],
)
def test_what_compiles_into_one_graph_still_does(function: Callable[..., torch.Tensor]) -> None:
    parameter = nn.Parameter(torch.ones(4, 3))
    parameter.grad = torch.ones(4, 3)
    expected = function([parameter])
    parameter.grad = torch.ones(4, 3)
    with watched():
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled([parameter]), expected)


def test_a_step_that_compiles_into_one_graph_still_does() -> None:
    class Descent(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.grad

    with watched():
        parameter = nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        optimizer = Descent([parameter], {"lr": 0.5})
        torch.compile(lambda: optimizer.step(), backend="aot_eager", fullgraph=True)()
        assert parameter.tolist() == [0.5, 0.5, 0.5]


def test_pytorch_takes_marks() -> None:
    assert hasattr(torch._C._dynamo.eval_frame, "set_code_exec_strategy")


def test_a_watched_model_may_be_compiled_with_its_step() -> None:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(model, optimizer) as seen:
        step = whole_step(model, optimizer)
        for _ in range(3):
            step(*batch())
    assert len(seen.steps()) == 3
    assert len(seen.rows("gradient:0.weight", "l2")) == 3
