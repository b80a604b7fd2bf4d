"""The operation at which a loss became non-finite is named before its backward."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.losses.first_bad import first_bad
from mothtrap.adapters.torch.losses.first_bad_location import first_bad_operation
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.loaded_modules import LoadedModules
from mothtrap.tracing.source import mentions

ROWS, BAD_STEP, STEPS = 6, 4, 7


class Scale(nn.Module):
    """Divides by a deviation, without a guard."""

    def forward(self, x: Tensor, f: Tensor) -> Tensor:
        x = x * f
        return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


class Attend(nn.Module):
    """Attention whose mask may exclude everything."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        scores = (self.q(x) @ self.k(x).T).masked_fill(~keep, float("-inf"))
        return torch.softmax(scores, 1) @ x


class Net(nn.Module):
    """A body, something in the middle, a head; counts its own calls."""

    def __init__(self, middle: Callable[..., Tensor] | nn.Module, recompute: bool = False) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 4)
        if isinstance(middle, nn.Module):
            self.middle = middle
        else:
            self.compute = middle
        self.recompute, self.calls = recompute, 0

    def forward(self, x: Tensor, *more: Tensor) -> Tensor:
        h = self.body(x)
        middle = self.middle if hasattr(self, "middle") else self._middle
        if self.recompute:
            return self.head(checkpoint(middle, h, *more, use_reentrant=False))
        return self.head(middle(h, *more))

    def _middle(self, h: Tensor, *more: Tensor) -> Tensor:
        self.calls += 1
        return self.compute(h, *more)


@dataclass(frozen=True)
class Program:
    """A training that goes bad in one step; `operation` is None where none can be named."""

    name: str
    operation: str | None
    module: str
    net: Callable[[], Net]
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy
    bad: Callable[[Tensor], Tensor] = lambda x: x
    more: Callable[[bool], tuple[Tensor, ...]] = lambda _: ()


def plain(h: Tensor) -> Tensor:
    return h.relu()


def flag(bad: bool) -> tuple[Tensor, ...]:
    return (torch.full((ROWS, 1), 0.0 if bad else 1.0),)


def masked(bad: bool) -> tuple[Tensor, ...]:
    keep = torch.ones(ROWS, ROWS, dtype=torch.bool)
    keep[2] = not bad
    return (keep,)


def entropy_by_hand(out: Tensor, y: Tensor) -> Tensor:
    p = torch.softmax(out * 1e4 ** float(out.abs().max() > 50), 1)
    return -torch.log(p.gather(1, y[:, None])).mean()


PROGRAMS = [
    Program(
        "log of zero",
        "torch.log",
        "Net",
        lambda: Net(lambda h, f: torch.log(h.square() * f)),
        more=flag,
    ),
    Program("division by zero", "torch.div", "Net", lambda: Net(lambda h, f: h / f), more=flag),
    Program(
        "square root below zero",
        "torch.sqrt",
        "Net",
        lambda: Net(lambda h, f: torch.sqrt(h.square() + f - 1e-9)),
        more=lambda bad: (torch.full((ROWS, 1), -1e6 if bad else 1.0),),
    ),
    Program(
        "exponential too large",
        "torch.exp",
        "Net",
        lambda: Net(lambda h, f: torch.exp(h / (f + 1e-4))),
        more=flag,
    ),
    Program(
        "arc cosine out of range",
        "torch.acos",
        "Net",
        lambda: Net(lambda h, f: torch.acos(torch.tanh(h) * 0.9 + (1 - f))),
        more=flag,
    ),
    Program(
        "a power of what is negative",
        "torch.pow",
        "Net",
        lambda: Net(lambda h, f: (h.square() + f - 0.5).pow(1.5)),
        more=lambda bad: (torch.full((ROWS, 1), -1e3 if bad else 1.0),),
    ),
    Program(
        "rows without a deviation",
        "torch.div",
        "middle",
        lambda: Net(Scale()),
        more=flag,
    ),
    Program("every key masked", "torch.softmax", "middle", lambda: Net(Attend()), more=masked),
    Program(
        "a loss by hand",
        "torch.log",
        "",
        lambda: Net(plain),
        loss=entropy_by_hand,
        bad=lambda x: x * 1e4,
    ),
    Program(
        "the mean of nothing",
        "torch.mean",
        "",
        lambda: Net(plain),
        loss=lambda out, y: functional.cross_entropy(out, y, reduction="none")[
            out.detach().abs().amax(1) < 1e3
        ].mean(),
        bad=lambda x: x * 1e6,
    ),
    Program(
        "every label ignored",
        "torch.nn.functional.nll_loss",
        "",
        lambda: Net(plain),
        loss=lambda out, y: functional.cross_entropy(
            out, y if out.detach().abs().max() < 1e3 else torch.full_like(y, -100)
        ),
        bad=lambda x: x * 1e6,
    ),
    Program(
        "a reciprocal of zero",
        "torch.reciprocal",
        "Net",
        lambda: Net(lambda h, f: h * torch.reciprocal(h.square().sum(1, keepdim=True) * f)),
        more=flag,
    ),
    Program(
        "a norm of zero",
        "torch.div",
        "Net",
        lambda: Net(lambda h, f: (h * f) / (h * f).norm(dim=1, keepdim=True)),
        more=flag,
    ),
    Program(
        "a logarithm of one less",
        "torch.log1p",
        "Net",
        lambda: Net(lambda h, f: torch.log1p(torch.sigmoid(h) * 0.5 - 2 * (1 - f))),
        more=flag,
    ),
    Program(
        "in a checkpointed part, which is not run again",
        None,
        "",
        lambda: Net(lambda h, f: torch.log(h.square() * f), recompute=True),
        more=flag,
    ),
]


def run(program: Program) -> tuple[Net, list[FirstBadOperation]]:
    """Train; return the model and the operation named for a loss before its backward ended."""
    torch.manual_seed(0)
    with watched() as seen:
        net = program.net()
        optimizer = sgd(net, 1e-3)
        for step in range(STEPS):
            bad = step == BAD_STEP
            x, y = torch.randn(ROWS, 4), torch.arange(ROWS) % 4
            optimizer.zero_grad()
            loss = program.loss(net(program.bad(x) if bad else x, *program.more(bad)), y)
            assert bool(torch.isfinite(loss)) != bad, program.name
            loss.backward()
            if not bad:
                optimizer.step()
    named = [seen for seen in seen.observed(FirstBadOperation) if seen.step == BAD_STEP]
    return net, [each for each in named if isinstance(each, FirstBadOperation)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_operation_is_named_and_nothing_of_the_users_runs_again(program: Program) -> None:
    net, named = run(program)
    if program.operation is not None:
        [seen] = named
        told = seen.operation, seen.since, seen.module
        assert told == (program.operation, None, program.module)
    own = 0 if hasattr(net, "middle") else STEPS
    assert net.calls == own * (2 if net.recompute else 1)  # torch runs the checkpointed code again


def test_most_of_them_are_named() -> None:
    assert len(PROGRAMS) == 15
    assert sum(program.operation is not None for program in PROGRAMS) >= 12


def test_between_operations_that_save_nothing_an_interval_is_named() -> None:
    x = torch.full((3,), 3e38, requires_grad=True)
    found = first_bad(((x + x) * 1.0 - x).mean().grad_fn)
    assert found is not None
    assert found.since is not found.node
    assert found.since.name() == "AddBackward0"


def test_its_only_line_and_what_made_its_input_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "divergence.py"
    script.write_text("def divergence(sigma):\n    return -(2 * sigma.log()).mean()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(mentions, "is_users_file", lambda file: file == str(script))
    monkeypatch.setattr(mentions, "_modules", LoadedModules())  # other tests have inspected them
    monkeypatch.setattr(mentions, "_files", {})
    divergence = importlib.import_module("divergence").divergence
    scale = torch.tensor([[-1.0, 2.0]], requires_grad=True)
    found = first_bad_operation(divergence(scale.relu()[0]), [], NameBook(), 3, "train.py:9")
    assert found is not None
    assert found.location is not None
    assert found.location.endswith("divergence.py:2")
    assert (found.operation, found.source) == ("torch.log", "relu")
    assert found.inputs == ("input from 0 to 2, 1 of 2 values are 0",)


def test_what_came_in_bad_has_no_operation() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    assert first_bad((torch.full((2, 2), float("nan")) @ weight).sum().grad_fn) is None


def test_what_is_masked_is_not_to_blame() -> None:
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    masked = torch.where(x > 0, torch.log(x), torch.zeros(()))
    found = first_bad((masked.mean() + torch.sqrt(x - 5).sum()).grad_fn)
    assert found is not None
    assert found.node.name() == "SqrtBackward0"


def test_saved_tensors_with_hooks_and_functions_of_the_users_are_left_alone() -> None:
    opened: list[Tensor] = []

    def unpack(tensor: Tensor) -> Tensor:
        opened.append(tensor)
        return tensor

    class Own(torch.autograd.Function):
        """Has saved a tensor of its own."""

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            opened.append(gradient)
            return gradient

    x = torch.zeros(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        loss = torch.log(Own.apply(x.exp() - 1)).mean()
    first_bad(loss.grad_fn)
    assert opened == []


def test_a_tensor_that_was_changed_since_is_not_read() -> None:
    x = torch.zeros(3, requires_grad=True)
    y = x * 1.0
    loss = torch.log(y).mean()
    with torch.no_grad():
        y.add_(1.0)
    found = first_bad(loss.grad_fn)
    assert found is not None
    assert found.since.name() in ("MulBackward0", "LogBackward0")


def test_results_that_are_worked_out_again_are_told_apart() -> None:
    """Each would get the address of the previous one if that had been released."""
    scale = torch.ones(256, requires_grad=True)
    values = [torch.rand(256) + 0.5 for _ in range(8)]
    values[5][3] = -1.0
    loss = torch.stack([(scale * value).log().sum() for value in values]).mean()
    found = first_bad(loss.grad_fn)
    assert found is not None
    assert found.node.name() == "LogBackward0"
    assert found.inputs["self"].min() == -1.0


def test_a_mean_of_ignored_rows_is_named_below_what_scales_it() -> None:
    scores = torch.randn(3, 4, requires_grad=True)
    loss = functional.cross_entropy(scores, torch.full((3,), -100)) / 4
    found = first_bad_operation(loss, [], NameBook(), 0, None)
    assert found is not None
    assert (found.operation, found.since) == ("torch.nn.functional.nll_loss", None)
    assert found.inputs[0] == "all 3 targets are -100, which is ignored"
