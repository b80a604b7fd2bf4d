"""Parameters of trained and of new models that no optimizer has."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.multiples import Multiples
from mothtrap.adapters.torch.job.naming import Root, class_name, has_stand_ins
from mothtrap.adapters.torch.job.readable import is_plain, is_readable, may_be_nonzero
from mothtrap.adapters.torch.optimization.initial import looks_drawn_uniformly, looks_untouched
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.optimizers import UnownedParameter
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch.plain import local
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

REPORTED_AT = (9, 20)
"""Steps after which they are first reported; the rule needs this many."""
REPORTED_EVERY = 100
MAX_WATCHED = 1000
COPY = 0.2
"""Maximum distance of a copy's weights, relative to their norm. Chosen by hand: a copy is a few
steps from the model, and two independently initialized models have a distance of about 1.4.
"""


@dataclass(slots=True, eq=False)
class _Watched:
    root: Root
    digest: int
    reached_steps: int = 0
    since: int | None = None
    nonzero: bool = False
    mark: tuple[weakref.ref[torch.Tensor], int] | None = None


class OwnershipObserver:
    """Counts the steps in which an unowned parameter got a gradient.

    Args:
        job: observed job.
        optimizers: its optimizers.
        order: positions of module paths in the order in which they first returned.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver, order: Mapping[str, int]) -> None:
        self._job, self._optimizers, self._order = job, optimizers, order
        self._watched: ByIdentity[torch.Tensor, _Watched] = ByIdentity()
        self._new: dict[int, bool] = {}
        self._roots_seen = -1
        self._steps = 0
        self._again = Multiples(REPORTED_EVERY)

    def stepped(self, _: Optimizer) -> None:
        """Count the parameters reached in an optimizer's step.

        Gradients may no longer exist when the step is closed.
        """
        self._look_for_new_roots()
        for parameter, watched in self._watched.items():
            _count(parameter, watched, self._job.grouper.step)

    def closed(self, step: int) -> None:
        """Process the closed step."""
        self._steps += 1
        again = self._again.passed(step)
        tells = self._steps in REPORTED_AT or again
        if self._steps == 2 or tells:
            self._job.book.refresh()
            self._find()
        if tells:
            self._report(step)

    def _look_for_new_roots(self) -> None:
        roots = self._job.book.roots_seen
        if roots != self._roots_seen:
            self._roots_seen = roots
            self._find()

    def _find(self) -> None:
        optimizers = self._optimizers
        for root in self._job.book.roots:
            module = root.module()
            if module is None:
                continue
            if has_stand_ins(module):
                self._roots_seen = -1  # during a step, an optimizer has its own parameters
                continue
            # An untrained model is reported only if it is new: a loaded one may serve to evaluate
            # others.
            if not optimizers.owns_root(root) and not self._is_new(root, module):
                continue
            for parameter in module.parameters():
                known = parameter in self._watched
                if known or not parameter.requires_grad or not is_readable(local(parameter)):
                    continue
                if optimizers.owner(parameter) is not None:
                    continue
                if len(self._watched) < MAX_WATCHED:
                    self._watched[parameter] = _Watched(root, arithmetic.digest(parameter.detach()))

    def _is_new(self, root: Root, module: nn.Module) -> bool:
        """Return whether a model has initial weights; determined once, when it is first called."""
        if root.index not in self._new:
            new = looks_untouched(module.modules()) is True
            self._new[root.index] = new and not self._is_copy(module)
        return self._new[root.index]

    def _is_copy(self, module: nn.Module) -> bool:
        """Return whether a trained model has (nearly) the same weights, as for a target network."""
        for root in self._job.book.roots:
            trained = root.module()
            if trained is None or trained is module or not self._optimizers.owns_root(root):
                continue
            reached = any(p.grad is not None for p in trained.parameters())
            if reached and _are_close(module, trained):
                return True
        return False

    def _report(self, step: int) -> None:
        optimizers, book = self._optimizers, self._job.book
        fresh: dict[int, float | None] = {}
        for parameter, watched in self._watched.items():
            if optimizers.owner(parameter) is not None:
                continue
            root = watched.root
            if root.index not in fresh:
                fresh[root.index] = self._fresh_share(root)
            name, path = optimizers.name_of(parameter)
            module = book.module_called(path)
            self._job.recorder.notes.observe(
                UnownedParameter(
                    step=step,
                    name=name,
                    module=path,
                    shape=tuple(parameter.shape),
                    reached_steps=watched.reached_steps if watched.nonzero else 0,
                    changed=arithmetic.digest(parameter.detach()) != watched.digest,
                    created_after_optimizer=self._is_younger(module, watched.root),
                    twin=self._orphan_like(parameter),
                    downstream_of_trained=self._is_downstream(path, watched.root),
                    model_untouched=not optimizers.owns_root(watched.root),
                    model=_class_of(watched.root),
                    fresh_share=fresh[root.index],
                    location=book.location(module) if module is not None else None,
                    since=watched.since,
                )
            )

    def _fresh_share(self, root: Root) -> float | None:
        """Return the share of a model that is in no optimizer and still has initial values."""
        whole = root.module()
        if whole is None:
            return None
        every = [p for p in whole.parameters() if is_plain(p)]
        total = sum(p.numel() for p in every)
        untouched = {
            id(p)
            for module in whole.modules()
            if looks_untouched([module])
            for p in module.parameters(recurse=False)
        }
        fresh = sum(
            p.numel()
            for p in every
            if p in self._watched
            and p.ndim > 1
            and self._optimizers.owner(p) is None
            and (id(p) in untouched or looks_drawn_uniformly(p))
        )
        return fresh / total if total else None

    def _is_younger(self, module: nn.Module | None, root: Root) -> bool:
        """Return whether the module was created after an optimizer of its root."""
        birth = self._job.book.birth(module) if module is not None else None
        whole = root.module()
        if birth is None or whole is None:
            return False
        own = {id(p) for p in whole.parameters()}
        return any(
            known.births < birth and any(id(p) in own for p in parameters(optimizer))
            for known, optimizer in self._optimizers.alive()
        )

    def _orphan_like(self, parameter: torch.Tensor) -> str | None:
        """Return an optimizer parameter of the same shape that belongs to no existing module."""
        in_models = {
            id(p)
            for root in self._job.book.roots
            if (module := root.module()) is not None
            for p in module.parameters()
        }
        for known, optimizer in self._optimizers.alive():
            for place, held in enumerate(parameters(optimizer)):
                if held.shape == parameter.shape and id(held) not in in_models:
                    return f"{known.name}.parameters[{place}]"
        return None

    def _is_downstream(self, path: str, root: Root) -> bool:
        """Return whether a module with trained parameters ran earlier in the forward pass."""
        order = self._order
        whole = root.module()
        if path not in order or whole is None:
            return False
        optimizers, book = self._optimizers, self._job.book
        return any(
            order.get(book.module_name(module), len(order)) < order[path]
            and any(optimizers.owner(p) is not None for p in module.parameters(recurse=False))
            for module in whole.modules()
        )


def _are_close(module: nn.Module, other: nn.Module) -> bool:
    """Return whether two models have parameters of the same shapes, and nearly the same weights."""
    own, others = list(module.parameters()), list(other.parameters())
    if [p.shape for p in own] != [p.shape for p in others]:
        return False
    pairs = [(a.detach(), b.detach()) for a, b in zip(own, others, strict=True) if a.ndim > 1]
    plain = [(a, b) for a, b in pairs if is_plain(a) and is_plain(b) and a.device == b.device]
    return bool(plain) and all(float((a - b).norm() / b.norm()) < COPY for a, b in plain)


def _count(parameter: torch.Tensor, watched: _Watched, step: int) -> None:
    gradient = parameter.grad
    if gradient is None:
        return
    mark = watched.mark
    if mark is None or mark[0]() is not gradient or mark[1] != gradient._version:
        watched.reached_steps += 1
        watched.since = step if watched.since is None else watched.since
        watched.mark = (OwnRef(gradient), gradient._version)
        watched.nonzero = watched.nonzero or may_be_nonzero(gradient)


def _class_of(root: Root) -> str:
    model = root.module()
    return class_name(model) if model is not None else ""
