"""Parts of a trained model that cannot train, or that the script could not freeze."""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.multiples import Multiples
from mothtrap.adapters.torch.job.naming import Root, class_name, has_stand_ins
from mothtrap.adapters.torch.job.readable import may_be_nonzero
from mothtrap.adapters.torch.optimization.initial import looks_untouched
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.reach import values_digest
from mothtrap.core.facts.modules import FreezeWithoutEffect, FrozenParameters, HiddenParameters
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source.mentions import only_assignment

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

FACTS = FreezeWithoutEffect, FrozenParameters, HiddenParameters
"""Facts that this module reports."""
LOOKED_AT = 2
"""Steps of the job after which models are inspected."""
REPORTED_AT = (9, 24, 60, 100)
"""Steps after which hidden parameters are reported, and the interval of further reports."""
REPORTED_EVERY = 500
LEVELS = 3
"""Maximum depth of nested containers that are searched for hidden modules."""
MAX_PARTS = 10_000
"""Maximum number of objects in plain containers of a model that are inspected."""
MODULES_NAMED = 10
HOLDERS_NAMED = 8
REAL_FLAG = "requires_grad"
_MISSPELLED = re.compile(r"^re?q\w*grad\w*$", re.IGNORECASE)
"""Attributes that a script sets on a parameter instead of `requires_grad`."""


@dataclass(slots=True, eq=False)
class _Hidden:
    """The hidden parameters behind one plain attribute of a module."""

    holder: str
    what: str
    location: str | None
    parameters: list[weakref.ref[torch.Tensor]]
    digest: int
    reached_steps: int = 0
    since: int | None = None
    marks: dict[int, tuple[int, int]] = field(default_factory=dict)


class InventoryObserver:
    """Inspects trained models once, and tracks the parameters it finds."""

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        self._looked: ByIdentity[nn.Module, bool] = ByIdentity()
        self._hidden: list[_Hidden] = []
        self._steps = 0
        self._again = Multiples(REPORTED_EVERY)
        self._is_late = False

    def stepped(self, _: Optimizer) -> None:
        """Handle the end of an optimizer step, while gradients still exist."""
        if self._is_late:
            self._look(self._job.grouper.step)
        for hidden in self._hidden:
            _count(hidden, self._job.grouper.step)

    def closed(self, step: int) -> None:
        """Handle the end of a step of the job."""
        self._steps += 1
        again = self._again.passed(step)
        tells = self._steps in REPORTED_AT or again
        if self._steps == LOOKED_AT or tells:
            self._look(step)
        for hidden in self._hidden if tells else ():
            self._report(hidden, step)

    def _look(self, step: int) -> None:
        self._is_late = False
        for root in self._job.book.roots:
            whole = root.module()
            if whole is None or whole in self._looked or not self._optimizers.owns_root(root):
                continue
            if has_stand_ins(whole):
                self._is_late = True  # during a step, an optimizer has its own parameters
                continue
            self._looked[whole] = True
            self._hidden += self._hidden_in(whole)
            self._report_frozen(root, whole, step)
            self._report_unfrozen(whole, step)

    # Hidden

    def _hidden_in(self, whole: nn.Module) -> Iterator[_Hidden]:
        registered = {id(m) for m in whole.modules()} | {id(p) for p in whole.parameters()}
        for module in whole.modules():
            for name, value in list(vars(module).items()):
                if name.startswith("_") and isinstance(value, dict):
                    continue  # internal attributes of the framework
                found = [p for p in _parts(value) if id(p) not in registered]
                own = [p for p in _parameters(found) if self._is_free(p, registered)]
                if own:
                    path = self._job.book.module_name(module)
                    whole_path = "" if module is whole else f"{path}."
                    yield _Hidden(
                        holder=f"{whole_path}{name}",
                        what=_words(value, found),
                        location=self._location(found, module),
                        parameters=[OwnRef(p) for p in own],
                        digest=values_digest(own),
                    )

    def _is_free(self, parameter: torch.Tensor, registered: set[int]) -> bool:
        wanted = parameter.requires_grad and parameter.is_leaf
        return (
            wanted and id(parameter) not in registered and self._optimizers.owner(parameter) is None
        )

    def _location(self, found: list[Any], holder: nn.Module) -> str | None:
        modules = [part for part in found if isinstance(part, nn.Module)]
        return self._job.book.location(modules[0] if modules else holder)

    def _report(self, hidden: _Hidden, step: int) -> None:
        alive = [p for reference in hidden.parameters if (p := reference()) is not None]
        if not alive or not hidden.reached_steps:
            return
        given = any(self._optimizers.owner(p) is not None for p in alive)
        self._job.recorder.notes.observe(
            HiddenParameters(
                step=step,
                holder=hidden.holder,
                what=hidden.what,
                parameters=len(alive),
                elements=sum(p.numel() for p in alive),
                reached_steps=hidden.reached_steps,
                changed=given
                or len(alive) < len(hidden.parameters)
                or values_digest(alive) != hidden.digest,
                location=hidden.location,
                since=hidden.since,
            )
        )

    # Frozen

    def _report_frozen(self, root: Root, whole: nn.Module, step: int) -> None:
        elements = frozen = judged = untouched = 0
        idle: list[tuple[int, nn.Module]] = []
        for module in whole.modules():
            own = [p for p in module._parameters.values() if p is not None]
            elements += sum(p.numel() for p in own)
            still = sum(p.numel() for p in own if not p.requires_grad)
            frozen += still
            fresh = looks_untouched([module]) if still else None
            judged += still if fresh is not None else 0
            # parameters with a gradient are frozen only now, like the opponent in a GAN
            if fresh and all(p.grad is None for p in own):
                untouched += still
                idle.append((still, module))
        if not frozen:
            return
        idle.sort(key=lambda pair: -pair[0])
        book = self._job.book
        self._job.recorder.notes.observe(
            FrozenParameters(
                step=step,
                root=root.path,
                elements=elements,
                frozen=frozen,
                judged=judged,
                untouched=untouched,
                modules=tuple(book.module_name(m) for _, m in idle[:MODULES_NAMED]),
                location=book.location(idle[0][1]) if idle else None,
            )
        )

    def _report_unfrozen(self, whole: nn.Module, step: int) -> None:
        """Report trained parameters that the script tried to freeze with a useless attribute."""
        found: dict[str, dict[str, torch.Tensor]] = {}
        for name, parameter in whole.named_parameters():
            for attribute, value in vars(parameter).items():
                if value is False and _MISSPELLED.match(attribute):
                    found.setdefault(attribute, {})[name] = parameter
        for attribute, named in found.items():
            self._observe_unfrozen(step, attribute, list(named), list(named.values()))
        for module in whole.modules():
            if vars(module).get(REAL_FLAG) is False:
                path = [self._job.book.module_name(module)]
                self._observe_unfrozen(step, REAL_FLAG, path, list(module.parameters()))

    def _observe_unfrozen(
        self, step: int, attribute: str, holders: list[str], parameters: list[torch.Tensor]
    ) -> None:
        owner = self._optimizers.owner
        trained = [p for p in parameters if p.requires_grad and owner(p) is not None]
        if trained:
            self._job.recorder.notes.observe(
                FreezeWithoutEffect(
                    step=step,
                    attribute=attribute,
                    holders=tuple(holders[:HOLDERS_NAMED]),
                    parameters=len(trained),
                    elements=sum(p.numel() for p in trained),
                    of_module=attribute == REAL_FLAG,
                    location=only_assignment(attribute),
                )
            )


def _parts(value: Any) -> list[Any]:
    """Yield the modules and tensors in a plain container, or a single tensor."""
    found: list[Any] = []
    waiting, looked = [(value, LEVELS)], 0
    while waiting and looked < MAX_PARTS:
        part, levels = waiting.pop()
        looked += 1
        if isinstance(part, nn.Module | torch.Tensor):
            found.append(part)
        elif levels and type(part) in (list, tuple, dict):
            inner = part.values() if isinstance(part, dict) else part
            waiting += [(each, levels - 1) for each in reversed(list(inner)[:MAX_PARTS])]
    return found


def _parameters(found: list[Any]) -> Iterator[torch.Tensor]:
    for part in found:
        if isinstance(part, nn.Module):
            yield from part.parameters()
        else:
            yield part


def _words(value: Any, found: list[Any]) -> str:
    kinds = Counter(
        class_name(part) if isinstance(part, nn.Module) else type(part).__name__ for part in found
    )
    inside = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    if isinstance(value, nn.Module | torch.Tensor):
        return f"plain attribute ({inside})"
    return f"plain {type(value).__name__} of {inside}"


def _count(hidden: _Hidden, step: int) -> None:
    """Count a step in which one of the parameters got a nonzero gradient."""
    reached = False
    for reference in hidden.parameters:
        parameter = reference()
        gradient = parameter.grad if parameter is not None else None
        if gradient is None:
            continue
        mark = (id(gradient), gradient._version)
        if not reached and hidden.marks.get(id(parameter)) != mark:
            reached = may_be_nonzero(gradient)
        hidden.marks[id(parameter)] = mark
    hidden.reached_steps += reached
    if reached and hidden.since is None:
        hidden.since = step
