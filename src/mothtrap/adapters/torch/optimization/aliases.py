"""Modules that are one and the same, although the source suggests that they are several."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.optimization.repeated_modules import repeated
from mothtrap.core.facts.modules import AliasedCopy, RepeatedModule
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.frame_variables import Variables, variables
from mothtrap.tracing.source.mentions import only_assignment

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot
    from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver

LOOK_AT = 3
"""Number of the backward pass at which the variables are read."""
MOST_FRAMES = 8
MOST_NAMES = 256
"""Maximum number of variables of a frame, or attributes of an object, that are read."""
_COPIES = re.compile(r"(^|_)(target|tgt|ema|swa|averaged?|momentum)($|_)", re.IGNORECASE)
"""Names of copies that move more slowly than the model. Chosen by hand."""

Named = list[tuple[str, nn.Module]]


class AliasObserver:
    """Searches once for a copy that is the model itself, and for repeated parts of the model."""

    FACTS = (AliasedCopy, RepeatedModule)

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        self._backwards = 0

    def loss_began(self, _: BackwardRoot) -> None:
        """Read the variables if due."""
        self._backwards += 1
        if self._backwards != LOOK_AT:
            return
        self._find_repeated()
        for group in _groups(frames.user_frame()):
            found = self._alias(group)
            if found is not None:
                self._job.recorder.notes.observe(found)
                return

    def _find_repeated(self) -> None:
        """Report the modules that a container of a trained model holds several times."""
        book = self._job.book
        for root in book.roots:
            whole = root.module()
            if whole is not None and self._optimizers.owns_root(root):
                for found in repeated(whole, book.module_name, self._is_trained):
                    self._job.recorder.notes.observe(found)

    def _is_trained(self, module: nn.Module) -> bool:
        return any(self._optimizers.owner(one) is not None for one in module.parameters())

    def _alias(self, group: Named) -> AliasedCopy | None:
        copies = [(name, module) for name, module in group if _COPIES.search(name)]
        others = [(name, module) for name, module in group if not _COPIES.search(name)]
        for copy, module in copies:
            first = next(module.parameters(), None)
            if first is None or self._optimizers.owner(first) is None:
                continue
            for name, other in others:
                if other is module or _shares_all(module, other):
                    return AliasedCopy(
                        step=self._job.grouper.step,
                        copy=copy,
                        model=name,
                        shallow=other is not module,
                        location=only_assignment(copy),
                    )
        return None


def _shares_all(module: nn.Module, other: nn.Module) -> bool:
    """Return whether two models have the same parameters, as after `copy.copy`."""
    own, others = [*module.parameters()], [*other.parameters()]
    same = type(module) is type(other) and len(own) == len(others)
    return same and all(a is b for a, b in zip(own, others, strict=True))


def _groups(frame: FrameType | None) -> Iterator[Named]:
    """Yield the models in the variables of each user's frame, and in attributes of its objects."""
    seen, count = set[int](), 0
    while frame is not None and count < MOST_FRAMES:
        if frames.is_users(frame):
            count += 1
            named = (variables(frame) or [])[:MOST_NAMES]
            yield _modules(named)
            for _, value in named:
                if id(value) not in seen:
                    seen.add(id(value))
                    yield _modules(_attributes(value))
        frame = frame.f_back


def _modules(named: Variables) -> Named:
    return [(name, value) for name, value in named if isinstance(value, nn.Module)]


def _attributes(value: Any) -> Variables:
    """Return the attributes of an object of the user; no code of the user runs."""
    if inspect.ismodule(value) or isinstance(value, type | torch.Tensor):
        return []
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    if type(own) is not dict or len(own) > MOST_NAMES:
        return []
    parts = own.get("_modules") if isinstance(value, nn.Module) else own
    return list(parts.items()) if isinstance(parts, dict) else []
