"""The fast path of calls reports the same as observed forwards."""

from __future__ import annotations

import subprocess
import sys
import weakref

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched, whole
from torch import nn
from torch.utils.checkpoint import checkpoint

from mothtrap.adapters.torch.forward import fast_path
from mothtrap.adapters.torch.job import retained_outputs

Tensor = torch.Tensor
Noted = list[tuple[str, list[float] | None]]

pytestmark = pytest.mark.skipif(
    fast_path.compiled is None, reason="the package was built without a C compiler"
)
ONLY_WEIGHTS = whole("weight")
QUIET_STEP = 40
"""A step in which no forward is inspected. The first steps inspect much, and all steps do if a
parameter in an optimizer is never reached.
"""


class Nested(nn.Module):
    """Parts that pass on, change in place, return no tensor, and run without a graph."""

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


class FirstOf(nn.Module):
    """Passes on the first output of a part."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class Slope(nn.Module):
    """Computes a gradient inside its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = x.requires_grad_()
        y = checkpoint(self.inner, x, use_reentrant=False)
        (slope,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        return y + slope.detach()


class Mapped(nn.Module):
    """Parts inside `vmap`, one of which returns no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.pair = nn.Linear(6, 6), Pair()

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.vmap(lambda row: self.pair(self.inner(row))[0])(x)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, x


class Changes(nn.Module):
    """A model that changes its input afterwards."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        x.unsqueeze_(0)
        return y


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.depth = nn.Linear(6, 6), 0

    def forward(self, x: Tensor) -> Tensor:
        self.depth += 1
        x = self.inner(x) if self.depth > 2 else self(self.inner(x))
        self.depth = 0
        return x


def parts(*kinds: type[nn.Module]) -> type[nn.Module]:
    """Build a model of several parts, each followed by one that stays plain."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [[nn.Linear(6, 6), kind(), nn.Linear(6, 6)] for kind in kinds]
            self.layers = nn.ModuleList([layer for three in layers for layer in three])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x).reshape(3, 6)
            return x

    return Model


def forward_of(make: type[nn.Module]) -> Noted:
    """Return the retained outputs of one forward in which no activations are requested."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with watched(capture=ONLY_WEIGHTS) as seen:
        for _ in range(QUIET_STEP):
            optimizer.zero_grad()
            out = model(torch.ones(3, 6))
            kept = [
                (type(module).__name__ if module is not None else "", _values(tensor))
                for module, tensor in seen.tracer.forwards.retained
            ]
            out.sum().backward()
            optimizer.step()
    return kept


def _values(tensor: Tensor | None) -> list[float] | None:
    return None if tensor is None else tensor.flatten().tolist()


MODELS = [Nested, parts(FirstOf), parts(Slope), parts(Mapped, Changes), Recursive]


@pytest.mark.parametrize(
    ("model", "room"),
    [
        pytest.param(model, room, marks=[pytest.mark.full] if (one + other) % 3 else [])
        for one, model in enumerate(MODELS)
        for other, room in enumerate((retained_outputs.RETAINED_BYTES, 100, 0))
    ],
)
def test_what_is_held_is_the_same_as_if_every_call_were_observed(
    model: type[nn.Module], room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained_outputs, "RETAINED_BYTES", room)
    fast = forward_of(model)
    monkeypatch.setattr(fast_path, "compiled", None)
    observed = forward_of(model)
    assert fast == observed
    assert len(fast) > 3


def test_calls_do_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    extend = retained_outputs.RetainedOutputs.extend
    monkeypatch.setattr(
        retained_outputs.RetainedOutputs,
        "extend",
        lambda self, new: (passed.append(len(new)), extend(self, new))[1],
    )
    forward_of(Nested)
    assert max(passed) >= 3


def test_no_graph_outlives_what_the_forward_drops() -> None:
    class Drops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.out = nn.Linear(6, 1), nn.Linear(6, 1)
            self.alive = 0

        def forward(self, x: Tensor) -> Tensor:
            dropped = []
            for _ in range(5):
                saved = torch.ones(3, 6)
                dropped.append(weakref.ref(saved))
                self.score(x.requires_grad_() * saved)
                del saved
            self.alive = sum(tensor() is not None for tensor in dropped)
            return self.out(x) + self.score(x)

    made: list[Drops] = []
    forward_of(lambda: made.append(Drops()) or made[0])  # type: ignore[arg-type,func-returns-value]
    assert made[0].alive == 0


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_part_may_be_compiled_again_inside_a_forward() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.ReLU()))
    model[1].compile(backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with watched(capture=ONLY_WEIGHTS) as seen:  # fails if mothtrap fails internally
        for rows in [3] * QUIET_STEP + [5, 7]:
            model(torch.ones(rows, 6)).sum().backward()
            optimizer.step()
        assert seen.tracer.job.live


@pytest.mark.full
def test_a_part_may_be_traced_inside_a_forward() -> None:
    """In a process of its own, because a value that is read in between would terminate it."""
    program = """
import torch
from tests.adapters.torch.forward import test_fast_path_forwards as t
class Traces(t.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.pair, self.calls = t.nn.Linear(6, 6), t.Pair(), 0
    def forward(self, x):
        x, self.calls = self.first(x), self.calls + 1
        if self.calls == t.QUIET_STEP:
            torch.jit.trace(self.pair, (x.detach(),), check_trace=False)
        return self.pair(x)[0]
print([name for name, _ in t.forward_of(Traces)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "['', 'Linear', 'Pair', 'Pair', 'Traces']", done.stderr


def test_a_root_that_was_interrupted_is_seen_again() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    optimizer = sgd(model)
    with watched(capture=ONLY_WEIGHTS) as seen:
        for _ in range(QUIET_STEP):
            model(torch.ones(3, 6)).sum().backward()
            optimizer.step()
        forwards = seen.tracer.forwards
        forwards.entered(model, (torch.ones(3, 6),))  # and its end is never reported
        before = forwards.roots_called
        with torch.no_grad():
            model(torch.ones(3, 6))
    assert forwards.roots_called == before + 1


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
        names = [type(module).__name__ for module, _ in seen.tracer.forwards.retained if module]
        assert names == ["Linear"]
        assert not seen.tracer.forwards._fast_outputs.fast_path.passes(model.good)
