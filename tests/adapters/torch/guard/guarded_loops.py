"""Loops with bad batches, and their twins that leave those batches out of the updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from tests.adapters.torch.watched import Seen
from torch import nn, optim
from torch.optim import Optimizer

from mothtrap.core.facts.guards import StepGuarded

BAD = (2, 5)
STEPS = 8
Loop = Callable[[bool], "Trained"]


class Trained:
    """Result of a training loop."""

    def __init__(self, model: nn.Module, *optimizers: Optimizer) -> None:
        self.model, self.optimizers = model, optimizers

    def values(self) -> list[object]:
        """Return the weights and everything in the optimizer states, in order."""
        found: list[object] = [p.detach() for p in self.model.parameters()]
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                found += flat(state)
            for group in optimizer.param_groups:
                found += flat({k: v for k, v in group.items() if k != "params"})
        return found


def flat(value: object) -> list[object]:
    if isinstance(value, dict):
        return [part for key in value for part in flat(value[key])]
    if isinstance(value, list | tuple):
        return [part for each in value for part in flat(each)]
    return [value]


def same(left: Trained, right: Trained) -> bool:
    """Return whether two trainings ended with the same bits."""
    pairs = list(zip(left.values(), right.values(), strict=True))
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b or a is b for a, b in pairs
    )


def finite(trained: Trained) -> bool:
    return all(bool(torch.isfinite(p).all()) for p in trained.model.parameters())


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def batch(bad: bool) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = torch.randn(4, 6), torch.arange(4) % 3
    if bad:
        x[1, 2] = float("nan")
    return x, y


def plain(make: Callable[[Sequence[nn.Parameter]], Optimizer], closure: bool = False) -> Loop:
    """The plain loop with one optimizer, with or without a closure."""

    def loop(twin: bool) -> Trained:
        model = network()
        optimizer = make(list(model.parameters()))
        for step in range(STEPS):
            x, y = batch(step in BAD)

            def evaluate(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                return loss

            if twin and step in BAD:
                continue
            if closure:
                optimizer.step(evaluate)  # type: ignore[arg-type]
            else:
                evaluate()
                optimizer.step()
        return Trained(model, optimizer)

    return loop


class Sharpness(Optimizer):
    """SAM that moves the weights with the previous gradients, as the common implementation does."""

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        super().__init__(params, {})
        self.base = torch.optim.SGD(self.param_groups, lr=0.1, momentum=0.9)

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
        loss = torch.enable_grad()(closure)()
        owned = [p for group in self.param_groups for p in group["params"]]
        moves = [0.05 * p.grad.sign() for p in owned]
        for parameter, move in zip(owned, moves, strict=True):
            self.state[parameter]["moved"] = move
            parameter.add_(move)
        torch.enable_grad()(closure)()
        for parameter, move in zip(owned, moves, strict=True):
            parameter.sub_(move)
        self.base.step()
        return loss


class Averaging(Optimizer):
    """Lookahead: steps an inner optimizer and, in every second step, its own slow weights."""

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        super().__init__(params, {"count": 0})
        self.inner = torch.optim.Adam(self.param_groups, lr=0.01)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = self.inner.step(closure)
        for group in self.param_groups:
            group["count"] += 1
            for p in group["params"]:
                slow = self.state[p].setdefault("slow", p.clone())
                if group["count"] % 2 == 0:
                    slow.lerp_(p, 0.5)
                    p.copy_(slow)
        return loss


class Bare(Optimizer):
    """A user-defined optimizer that assumes that all gradients exist."""

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        super().__init__(params, {"calls": 0})

    @torch.no_grad()
    def step(self, closure: None = None) -> str:  # type: ignore[override]
        for group in self.param_groups:
            group["calls"] += 1
            for p in group["params"]:
                p.sub_(0.1 * p.grad.clamp(-1, 1))
        return "done"


class ClosureTwice(Optimizer):
    """Changes weights and state before the second evaluation, the only one that goes wrong."""

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
        loss: torch.Tensor | None = None
        for _ in range(2):
            loss = torch.enable_grad()(closure)()
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                state.setdefault("trace", []).append(p.grad.clone())
                state["sum"] = state.get("sum", torch.zeros_like(p)) + p.grad
                p.sub_(0.1 * state["sum"])
        assert loss is not None
        return loss


def skipped(seen: Seen) -> list[int]:
    marked = [record.key.step for record in seen.steps() if record.skipped]
    told = [o.step for o in seen.observed(StepGuarded)]
    assert told == marked
    return marked


def hybrid() -> Loop:
    """Train with Muon for matrices and AdamW for the rest, one after the other."""

    def loop(twin: bool) -> Trained:
        model = network()
        matrices = [p for p in model.parameters() if p.ndim == 2]
        others = [p for p in model.parameters() if p.ndim != 2]
        both = optim.Muon(matrices, lr=0.01), optim.AdamW(others, lr=0.01)
        for step in range(STEPS):
            x, y = batch(False)
            if twin and step in BAD:
                continue
            nn.functional.cross_entropy(model(x), y).backward()
            if step in BAD:  # in a weight of the optimizer that steps second
                others[0].grad[0] = float("inf")  # type: ignore[index]
            for optimizer in both:
                optimizer.step()
                optimizer.zero_grad()
        return Trained(model, *both)

    return loop


def accumulated() -> Loop:
    """Train with three micro-batches per step, of which one may be bad."""

    def loop(twin: bool) -> Trained:
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        for step in range(STEPS):
            micro = [batch(step in BAD and i == 1) for i in range(3)]
            if twin and step in BAD:
                continue
            for x, y in micro:
                (nn.functional.cross_entropy(model(x), y) / 3).backward()
            optimizer.step()
            optimizer.zero_grad()
        return Trained(model, optimizer)

    return loop


def sparse() -> Loop:
    def loop(twin: bool) -> Trained:
        torch.manual_seed(0)
        model = nn.Embedding(10, 4, sparse=True)
        optimizer = optim.SparseAdam(model.parameters(), lr=0.01)
        for step in range(STEPS):
            rows = torch.randint(0, 10, (3,))
            if twin and step in BAD:
                continue
            optimizer.zero_grad()
            (model(rows).pow(2).sum() * (math.inf if step in BAD else 1.0)).backward()
            optimizer.step()
        return Trained(model, optimizer)

    return loop


LOOPS: dict[str, Loop] = {
    "sgd": plain(lambda p: optim.SGD(p, lr=0.1)),
    "momentum, foreach": plain(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, foreach=True)),
    "fused sgd": plain(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, fused=True)),
    "adam": plain(lambda p: optim.Adam(p, amsgrad=True, foreach=False)),
    "foreach adamw": plain(lambda p: optim.AdamW(p, lr=0.01, foreach=True)),
    "fused adamw": plain(lambda p: optim.AdamW(p, lr=0.01, fused=True)),
    "adamw with a closure": plain(lambda p: optim.AdamW(p, lr=0.01), closure=True),
    "adadelta": plain(optim.Adadelta),
    "adafactor": plain(optim.Adafactor),
    "adagrad": plain(optim.Adagrad),
    "adamax": plain(optim.Adamax),
    "asgd": plain(optim.ASGD),
    "nadam": plain(optim.NAdam),
    "radam": plain(optim.RAdam),
    "rmsprop": plain(lambda p: optim.RMSprop(p, momentum=0.5, centered=True)),
    "rprop": plain(optim.Rprop),
    "lbfgs": plain(lambda p: optim.LBFGS(p, max_iter=4), closure=True),
    "lbfgs with a line search": plain(
        lambda p: optim.LBFGS(p, max_iter=4, line_search_fn="strong_wolfe"), closure=True
    ),
    "sam": plain(Sharpness, closure=True),
    "lookahead": plain(Averaging),
    "lookahead with a closure": plain(Averaging, closure=True),
    "one's own": plain(Bare),
    "muon and adamw": hybrid(),
    "accumulation": accumulated(),
    "sparse": sparse(),
}
