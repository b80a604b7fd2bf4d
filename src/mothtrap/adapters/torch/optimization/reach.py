"""Optimizer parameters that no backward pass reaches, and the state of their modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job import checkpointing, graph
from mothtrap.adapters.torch.job.multiples import Multiples
from mothtrap.adapters.torch.job.naming import unseen_inside
from mothtrap.adapters.torch.job.nested import tensors_in
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.optimization.initial import looks_untouched
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.facts.optimizers import IdleOptimizer
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch.plain import local
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

SURVEYS_FROM = 2
"""Step of an optimizer after which modules with unreached parameters are observed."""
SURVEYED_FORWARDS = 8
"""Number of forwards in which all modules are inspected for their order and for cut outputs."""
REPORTED_AT = (5, 20, 50, 100)
"""Steps of an optimizer after which they are reported, and the interval of further reports."""
REPORTED_EVERY = 200
COMPARED_ELEMENTS = 4096
"""Number of first elements of a parameter that are compared to detect changes."""
MAX_MODULES = 64
"""Maximum number of modules reported for an optimizer at a time."""


@dataclass(slots=True, eq=False)
class _Module:
    """Record of a module with unreached parameters."""

    digest: int
    runs: int = 0
    without_graph: int = 0
    in_checkpoint: int = 0
    in_evaluation: int = 0
    detached_before: str | None = None
    given_out: bool = False
    told: bool = False


@dataclass(slots=True, eq=False)
class _Owner:
    """Unreached parameters of an optimizer; `idle` counts steps without any gradient.

    Only inspected steps count; `since` and `idle_since` are the first of them.
    """

    since: int
    steps: int = 0
    idle: int = 0
    idle_since: int = 0
    known: int = 0
    elements: int = 0
    pending: list[torch.Tensor] = field(default_factory=list)
    again: Multiples = field(default_factory=lambda: Multiples(REPORTED_EVERY))


class ReachObserver:
    """Checks after each step whether parameters without a gradient have one now.

    A parameter that a backward pass has reached once has a gradient, even if it is zero, and is not
    checked again.

    Attributes:
        looks: whether calls of modules must be reported.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        self._owners: ByIdentity[Optimizer, _Owner] = ByIdentity()
        self._watched: ByIdentity[nn.Module, _Module] = ByIdentity()
        self._order: ByIdentity[nn.Module, int] = ByIdentity()
        self._unhooked: ByIdentity[nn.Module, bool] = ByIdentity()
        self._outputs: dict[int, nn.Module] = {}
        self._surveys = 0
        self.looks = False

    def is_owned(self, parameter: torch.Tensor) -> bool:
        """Return whether an optimizer has a parameter."""
        return self._optimizers.owner(parameter) is not None

    # Steps

    def stepped(self, optimizer: Optimizer) -> None:
        """Handle the end of an optimizer step, while its gradients still exist."""
        owner = self._owners.get(optimizer)
        if owner is None:
            owner = self._owners[optimizer] = _Owner(self._job.grouper.step)
        owner.steps += 1
        again = owner.again.passed(self._job.grouper.step)
        self._take_in(optimizer, owner)
        before = len(owner.pending)
        if not before and not owner.idle:
            return
        owner.pending = [p for p in owner.pending if p.grad is None and p.requires_grad]
        shrunk = len(owner.pending) < before
        self._count_idle(optimizer, owner, shrunk)
        if owner.pending and owner.steps == SURVEYS_FROM:
            self._surveys = SURVEYED_FORWARDS
            self._watch(owner)
        if shrunk:
            self._report_reached()
            self.looks = any(other.pending for _, other in self._owners.items())
        if owner.pending and (owner.steps in REPORTED_AT or again):
            if owner.idle >= REPORTED_AT[0]:
                self._report_idle(optimizer, owner)
            else:
                self._report_unreached(owner)

    def _count_idle(self, optimizer: Optimizer, owner: _Owner, shrunk: bool) -> None:
        if not shrunk and all(p.grad is None for p in parameters(optimizer)):
            if not owner.idle:
                owner.idle_since = self._job.grouper.step
            owner.idle += 1
        elif owner.idle:
            told, owner.idle = owner.idle >= REPORTED_AT[0], 0
            if told:
                self._report_idle(optimizer, owner)

    def _take_in(self, optimizer: Optimizer, owner: _Owner) -> None:
        """Include parameters that were added to the optimizer later."""
        held = self._optimizers.add(optimizer).held
        if len(held) == owner.known:
            return
        every = list(parameters(optimizer))
        owner.pending += [p for p in every[owner.known :] if p.requires_grad]
        owner.known = len(held)
        owner.elements = sum(p.numel() for p in every)

    def _watch(self, owner: _Owner) -> None:
        for module, own in self._modules_of(owner):
            if module not in self._watched:
                self._watched[module] = _Module(values_digest(own))
        self.looks = len(self._watched) > 0

    def _modules_of(self, owner: _Owner) -> Iterator[tuple[nn.Module, list[torch.Tensor]]]:
        """Return the modules with pending own parameters, and these parameters."""
        self._job.book.refresh()
        pending = {id(p) for p in owner.pending}
        seen: set[int] = set()
        for module in self._modules():
            unreached: list[torch.Tensor] = [
                p for p in module._parameters.values() if p is not None and id(p) in pending
            ]
            if unreached and id(module) not in seen:
                seen.add(id(module))
                yield module, unreached

    def _modules(self) -> Iterator[nn.Module]:
        for root in self._job.book.roots:
            whole = root.module()
            if whole is not None:
                yield from whole.modules()

    def hide(self, modules: Iterable[nn.Module]) -> None:
        """Record that the calls to some modules cannot be observed."""
        for module in modules:
            self._unhooked[module] = True

    # Forwards

    def root_called(self) -> None:
        """Handle the start of an outermost forward pass."""
        self._outputs.clear()
        if self._surveys:
            self._surveys -= 1

    def entered(self, module: nn.Module, args: Any) -> None:
        """Check whether a module receives the detached output of an unreached module."""
        if not self._surveys or not self._outputs:
            return
        for tensor in tensors_in(args):
            if tensor.requires_grad or not is_plain(tensor):
                continue
            source = self._outputs.get(tensor.data_ptr())
            seen = self._watched.get(source) if source is not None else None
            if seen is not None and module is not source:
                seen.detached_before = self._job.book.module_name(module)

    def returned(self, module: nn.Module, tensors: list[torch.Tensor], trains: bool) -> None:
        """Handle the return of `tensors` from a module; `trains`: the root has a graph."""
        seen = self._watched.get(module)
        if self._surveys and trains and module._parameters and module not in self._order:
            self._order[module] = len(self._order)
        if self._surveys and trains:
            self._keep(module, tensors)
        if self._surveys and trains and self._is_root(module):
            self._given_out(tensors)
        if seen is None:
            return
        if not trains:
            seen.in_evaluation += 1
            return
        seen.runs += 1
        floats = [t for t in tensors if t.is_floating_point() or t.is_complex()]
        has_graph = not floats or any(t.requires_grad for t in floats)
        cut = not torch.is_grad_enabled() or not has_graph
        seen.without_graph += cut and not checkpointing.in_first_run()
        seen.in_checkpoint += cut and checkpointing.in_idle_run()

    def _is_root(self, module: nn.Module) -> bool:
        return any(root.module() is module for root in self._job.book.roots)

    def _given_out(self, outputs: list[torch.Tensor]) -> None:
        """Record the unreached modules from which the outputs of a root are computed."""
        made_of = {id(leaf) for leaf in graph.leaves(outputs)}
        for module, seen in self._watched.items():
            own = (p for p in module._parameters.values() if p is not None)
            seen.given_out = seen.given_out or any(id(p) in made_of for p in own)

    def _keep(self, module: nn.Module, tensors: list[torch.Tensor]) -> None:
        """Store the memory addresses of outputs of unreached modules, and operations on them."""
        source: nn.Module | None = module
        if module not in self._watched:
            last = next(reversed(self._outputs.values()), None)
            source = last if next(module.parameters(recurse=False), None) is None else None
        for tensor in tensors:
            if source is not None and tensor.requires_grad and is_plain(tensor):
                self._outputs.pop(tensor.data_ptr(), None)
                self._outputs[tensor.data_ptr()] = source

    # Reports

    def _report_unreached(self, owner: _Owner) -> None:
        copied = templates(self._modules())
        for module, own in list(self._modules_of(owner))[:MAX_MODULES]:
            seen = self._watched.get(module)
            if seen is not None and id(module) not in copied:
                seen.told = True
                self._job.recorder.notes.observe(self._unreached(module, own, seen, owner))

    def _report_reached(self) -> None:
        """Retract the report about modules that get a gradient after all."""
        for module, seen in self._watched.items():
            if seen.told and _has_gradient(module):
                seen.told = False
                self._job.recorder.notes.observe(
                    UnreachedModule(
                        step=self._job.grouper.step,
                        module=self._job.book.module_name(module),
                        parameters=(),
                        elements=0,
                        share=0.0,
                        own_steps=0,
                    )
                )

    def _unreached(
        self, module: nn.Module, own: list[torch.Tensor], seen: _Module, owner: _Owner
    ) -> UnreachedModule:
        book, elements = self._job.book, sum(p.numel() for p in own)
        return UnreachedModule(
            step=self._job.grouper.step,
            module=book.module_name(module),
            parameters=tuple(self._optimizers.name_of(p)[0] for p in own),
            elements=elements,
            share=elements / max(1, owner.elements),
            own_steps=owner.steps,
            runs=seen.runs,
            runs_without_graph=seen.without_graph,
            runs_in_checkpoint=seen.in_checkpoint,
            runs_in_evaluation=seen.in_evaluation,
            calls_are_seen=self._is_in_sight(module),
            upstream=self._is_upstream(module),
            detached_before=seen.detached_before,
            given_out=seen.given_out,
            changed=values_digest(own) != seen.digest,
            untouched=looks_untouched([module]),
            location=book.location(module),
            since=owner.since,
        )

    def _is_upstream(self, module: nn.Module) -> bool:
        """Return whether a module ran before all reached modules with parameters."""
        place = self._order.get(module)
        reached = [order for other, order in self._order.items() if _has_gradient(other)]
        return place is not None and bool(reached) and place < min(reached)

    def _is_in_sight(self, module: nn.Module) -> bool:
        """Return whether the calls of a module are visible, and not hidden by a wrapper."""
        root = self._job.book.root_of(module)
        if root is not None and not root.is_called:
            return False
        shells = [m for shell in root.shells if (m := shell()) is not None] if root else []
        around = [m for shell in shells for m in shell.modules() if unseen_inside(m) is not None]
        hidden = any(module is inner for outer in around for inner in outer.modules())
        return not hidden and module not in self._unhooked

    def _report_idle(self, optimizer: Optimizer, owner: _Owner) -> None:
        """Search for parameters that have gradients and correspond to those of the optimizer."""
        shapes = Counter(p.shape for p in parameters(optimizer))
        twins: list[tuple[nn.Module, torch.Tensor]] = []
        for module in self._modules() if owner.idle else ():
            for parameter in module._parameters.values():
                if parameter is None or parameter.grad is None or not shapes[parameter.shape]:
                    continue
                if self._optimizers.owner(parameter) is None:
                    shapes[parameter.shape] -= 1
                    twins.append((module, parameter))
        self._job.recorder.notes.observe(
            IdleOptimizer(
                step=self._job.grouper.step,
                optimizer=self._optimizers.add(optimizer).name,
                own_steps=owner.idle,
                parameters=owner.known,
                twins=len(twins),
                twin=self._optimizers.name_of(twins[0][1])[0] if twins else "",
                location=self._job.book.location(twins[0][0]) if twins else None,
                since=owner.idle_since,
            )
        )


def templates(modules: Iterable[nn.Module]) -> set[int]:
    """Return the ids of layers that a transformer has copied and does not call, and of their parts.

    `nn.TransformerEncoder(layer, n)` contains `n` copies of the layer; the layer itself often stays
    an attribute of the model.
    """
    every = list(modules)
    stacks = [
        one for one in every if isinstance(one, nn.TransformerEncoder | nn.TransformerDecoder)
    ]
    layers = [layer for stack in stacks for layer in stack.layers]
    kinds, used = {type(layer) for layer in layers}, {id(layer) for layer in layers}
    spare = [one for one in every if type(one) in kinds and id(one) not in used]
    return {id(part) for one in spare for part in one.modules()}


def _has_gradient(module: nn.Module) -> bool:
    return any(p is not None and p.grad is not None for p in module._parameters.values())


def values_digest(tensors: list[torch.Tensor]) -> int:
    """Return a digest of the first values of tensors, to detect later changes."""
    own = [local(t) for t in tensors]
    parts = [t.reshape(-1)[:COMPARED_ELEMENTS] for t in own if is_plain(t)]
    return hash(tuple(arithmetic.digest(part) for part in parts))
