"""The model's call in the recorded step, as a function of its inputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.cuts import CutFinder
from mothtrap.adapters.torch.checking.own_functions import noted_functions
from mothtrap.adapters.torch.checking.unsaved import UnsavedState
from mothtrap.adapters.torch.job import randomness
from mothtrap.adapters.torch.job.naming import unwrapped
from mothtrap.checks.step import Array, Cut, batch_axis_of
from mothtrap.core.facts.checks import LayerRow

MAX_VALUES = 1 << 25
"""Maximum number of stored values of module outputs (128 MB as float32); chosen by hand."""


def _is_huge(tensor: torch.Tensor) -> bool:
    """Return whether a sparse tensor would take too much memory in dense form."""
    return tensor.layout != torch.strided and tensor.numel() > MAX_VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call to a model.

    Attributes:
        module: the model.
        args: positional arguments, copied.
        kwargs: keyword arguments, copied.
        rng: random states before the call.
        location: `file:line` of the call.
        autocast: dtype of the autocast region around the call; None without one.
        unsaved: state that no checkpoint contains, from before the first call; None = unknown.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    rng: Mapping[str, Any]
    location: str | None = None
    autocast: torch.dtype | None = None
    unsaved: UnsavedState | None = None


class RecordedForward:
    """Calls the model repeatedly, from the same state each time."""

    def __init__(self, call: RecordedCall) -> None:
        self._call = call
        self._state = {
            name: value.detach().clone()
            for name, value in call.module.state_dict(keep_vars=True).items()
            if isinstance(value, torch.Tensor)
        }
        arguments = call.args, call.kwargs
        self.model = type(call.module).__name__
        given = dict(trees.tensors(arguments))
        small = {path: one for path, one in given.items() if not _is_huge(one)}
        self.inputs: Mapping[str, Array] = {p: trees.array_of(one) for p, one in small.items()}
        # A large sparse tensor connects the nodes of a graph, so its rows are not samples.
        self.rows = batch_axis_of(self.inputs) if len(small) == len(given) else 0
        self.kinds = frozenset(type(part).__name__ for part in call.module.modules())
        self.channels, self.location = 1, call.location

    def outputs(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        training: bool = False,
        seed: int = 0,
    ) -> tuple[Array, ...]:
        """Return the floating-point outputs; see `checks.step.Forward`."""
        with self._prepared(training, seed), torch.no_grad():
            return tuple(map(trees.array_of, trees.floating(self._again(inputs))))

    def parts(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        training: bool = False,
        seed: int = 0,
    ) -> Sequence[tuple[str, Array]]:
        """Return the output of each module call, in the order in which the calls end."""
        found: list[tuple[str, Array]] = []
        left = MAX_VALUES

        def keep(name: str, value: Any) -> None:
            nonlocal left
            for tensor in trees.floating(value)[:1]:
                left -= tensor.numel()
                if left > 0:
                    found.append((name, trees.array_of(tensor).copy()))

        with self._prepared(training, seed), torch.no_grad(), hooked(self._call.module, keep):
            self._again(inputs)
        return found

    def stale(self) -> Mapping[str, tuple[Array, ...]] | None:
        """Return the outputs with one tensor reset to its first value (`checks.step.Forward`)."""
        unsaved, found = self._call.unsaved, {}
        if unsaved is None:
            return None
        for name, shape in unsaved.changed().items():
            if self.rows not in shape:
                with unsaved.first_again(name):
                    found[name] = self.outputs()
        return found

    def layers(self) -> Sequence[LayerRow]:
        """Return the layers with their output shapes; see `checks.step.Forward`."""
        shapes: dict[str, tuple[int, ...]] = {}

        def keep(name: str, value: Any) -> None:
            shapes.setdefault(name, next((tuple(t.shape) for t in trees.floating(value)), ()))

        model = unwrapped(self._call.module)
        counter = FlopCounterMode(display=False)
        with self._prepared(training=False, seed=0), torch.no_grad(), hooked(model, keep), counter:
            self._again(None)
        counts = counter.get_flop_counts()
        return layer_rows(model, shapes, counts)

    def left_out(self) -> Sequence[str]:
        """Return (), because PyTorch models call their layers in each step (see PRE101)."""
        return ()

    def drops(self) -> bool:
        """Return whether the model drops values at random in evaluation mode."""
        seen = _Operations()
        with self._prepared(training=False, seed=0), torch.no_grad(), seen:
            self._again(None)
        return any("bernoulli" in name or "dropout" in name for name in seen.names)

    def influence(self, seeds: int = 2) -> Mapping[str, Array]:
        """Return the summed absolute gradient of the outputs with respect to each input value."""
        found: dict[str, Array] = {}
        with self._prepared(training=False, seed=0), torch.enable_grad():
            args, kwargs = trees.mapped((self._call.args, self._call.kwargs), _with_gradient)
            leaves = {p: t for p, t in trees.tensors((args, kwargs)) if t.requires_grad}
            outputs = [out for out in trees.floating(self._called(args, kwargs)) if out.grad_fn]
            for seed in range(seeds) if outputs and leaves else ():
                gradients = torch.autograd.grad(
                    _projected(outputs, seed), list(leaves.values()),
                    retain_graph=True, allow_unused=True,
                )  # fmt: skip
                for path, gradient in zip(leaves, gradients, strict=True):
                    if gradient is not None:
                        size = np.abs(trees.array_of(gradient))
                        found[path] = found.get(path, 0) + size
        return found

    def gradients(self, *, double: bool) -> Mapping[str, Array]:
        """Return the gradient of a random projection of the outputs for each parameter."""
        with self._prepared(training=False, seed=0), torch.enable_grad():
            model = _doubled(self._call.module) if double else self._call.module
            named = {n: p for n, p in model.named_parameters() if p.requires_grad}
            arguments = (self._call.args, self._call.kwargs)
            args, kwargs = trees.mapped(arguments, _double) if double else arguments
            value = _projected(trees.floating(self._called(args, kwargs, model, plain=double)), 0)
            found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
        return {
            name: trees.array_of(gradient)
            for name, gradient in zip(named, found, strict=True)
            if gradient is not None
        }

    def exact_outputs(self) -> tuple[Array, ...]:
        """Return the outputs, computed in float64 without autocast."""
        with self._prepared(training=False, seed=0), torch.no_grad():
            model = _doubled(self._call.module)
            args, kwargs = trees.mapped((self._call.args, self._call.kwargs), _double)
            outputs = trees.floating(self._called(args, kwargs, model, plain=True))
            return tuple(map(trees.array_of, outputs))

    def directional(self, seed: int) -> tuple[float, float, float]:
        """Compare the derivative along a random direction, in float64."""
        model = _doubled(self._call.module)
        args, kwargs = trees.mapped((self._call.args, self._call.kwargs), _double)
        named = [p for p in model.parameters() if p.requires_grad]
        generator = torch.Generator().manual_seed(seed)
        direction = [torch.randn(p.shape, generator=generator).to(p) * _scale(p) for p in named]

        def move(step: float) -> None:
            for parameter, part in zip(named, direction, strict=True):
                parameter.data.add_(part, alpha=step)  # without increasing the version counter

        def value(step: float) -> torch.Tensor:
            move(step)
            with self._prepared(training=False, seed=0), torch.enable_grad():
                model.eval()
                result = _projected(
                    trees.floating(self._called(args, kwargs, model, plain=True)), seed
                )
            move(-step)
            return result

        gradients = torch.autograd.grad(value(0.0), named, allow_unused=True)
        slope = sum(
            float((g * d).sum()) for g, d in zip(gradients, direction, strict=True) if g is not None
        )
        wide, narrow = ((value(h) - value(-h)).item() / (2 * h) for h in (1e-4, 1e-5))
        return wide, narrow, slope

    def own_backwards(self) -> Mapping[str, bool]:
        """Return the user's `autograd.Function`s; see `checks.step.Forward`."""
        prepared = self._prepared(training=False, seed=0)
        with noted_functions() as found, prepared, torch.enable_grad():
            self._again(None)
        return found

    def cut(self, module: str) -> Cut:
        """Find where the path from a module to the outputs ends."""
        with self._prepared(training=False, seed=0), torch.enable_grad():
            return CutFinder(self._call.module, lambda: self._again(None)).find(module)

    # The call

    def _again(self, inputs: Mapping[str, Array] | None) -> Any:
        arguments = trees.copied((self._call.args, self._call.kwargs))
        return self._called(*trees.replaced(arguments, inputs or {}))

    def _called(
        self, args: Any, kwargs: Any, model: nn.Module | None = None, *, plain: bool = False
    ) -> Any:
        autocast = self._call.autocast
        mixed = autocast is not None and not plain
        with torch.autocast("cpu", dtype=autocast) if mixed else nullcontext():
            return (model or self._call.module)(*args, **kwargs)

    @contextmanager
    def _prepared(self, training: bool, seed: int) -> Iterator[None]:
        """Restore weights, buffers, modes, and random states before and after a call."""
        modes = [(part, part.training) for part in self._call.module.modules()]
        if not training:
            self._call.module.eval()
        self._restore()
        randomness.restore(self._call.rng)
        if seed:
            torch.manual_seed(seed)
            np.random.seed(seed)
        try:
            yield
        finally:
            self._restore()
            for part, mode in modes:
                part.training = mode

    def _restore(self) -> None:
        with torch.no_grad():
            for name, value in self._call.module.state_dict(keep_vars=True).items():
                if name in self._state and not torch.equal(value, self._state[name]):
                    value.copy_(self._state[name])


def layer_rows(
    model: nn.Module,
    shapes: Mapping[str, tuple[int, ...]],
    counts: Mapping[str, Mapping[Any, int]],
) -> list[LayerRow]:
    """Return the table of the layers of a model.

    Args:
        model: the model.
        shapes: shapes of outputs by path.
        counts: floating-point operations by path (after the model's class name) and operation.
    """
    rows = []
    for name, part in model.named_modules():
        own = list(part.parameters(recurse=False))
        if not own and any(True for _ in part.children()):
            continue
        path = f"{type(model).__name__}.{name}" if name else type(model).__name__
        some = [p for p in own if p.requires_grad]
        rows.append(
            LayerRow(
                name=name or type(model).__name__,
                kind=type(part).__name__,
                output=shapes.get(name, ()),
                parameters=sum(p.numel() for p in own),
                trained=bool(some),
                multiplications=_multiplications(part, shapes.get(name), counts.get(path, {})),
            )
        )
    return rows


def _multiplications(
    part: nn.Module, output: tuple[int, ...] | None, counts: Mapping[Any, int]
) -> int:
    """Return the multiplications of a layer; PyTorch does not count recurrent layers."""
    if counts or output is None or not isinstance(part, nn.RNNBase):
        return sum(counts.values()) // 2
    return math.prod(output[:-1]) * sum(one.numel() for one in part.parameters() if one.ndim > 1)


@contextmanager
def hooked(model: nn.Module, keep: Callable[[str, Any], None]) -> Iterator[None]:
    """Report the output of every module call inside a block."""
    handles = [
        part.register_forward_hook(lambda _m, _a, out, name=name: keep(name, out))
        for name, part in model.named_modules()
        if name
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Record the names of the operations inside a block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record the name of the operation, then run it."""
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def _with_gradient(tensor: torch.Tensor) -> torch.Tensor:
    fresh = tensor.detach().clone()
    return fresh.requires_grad_() if fresh.is_floating_point() else fresh


def _double(tensor: torch.Tensor) -> torch.Tensor:
    fresh = tensor.detach().clone()
    return fresh.double() if fresh.is_floating_point() else fresh


def _doubled(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).double()


def _scale(parameter: torch.Tensor) -> float:
    """Return the step size along a parameter, in proportion to its values."""
    return float(parameter.detach().abs().mean()) or 1.0


def _projected(outputs: Sequence[torch.Tensor], seed: int) -> torch.Tensor:
    """Return the inner product of the outputs with random vectors."""
    generator = torch.Generator().manual_seed(1000 + seed)
    parts = [(out * torch.randn(out.shape, generator=generator).to(out)).sum() for out in outputs]
    return torch.stack([part.double() for part in parts]).sum()
