"""The objects of a training whose states make up its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.naming import NameBook, class_name
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.tracing.identity import ByIdentity


@dataclass(frozen=True, slots=True, eq=False)
class TrackedRoot:
    """A root module.

    Attributes:
        path: its name.
        prefix: what stands before the names of its parts; '' of the first one.
        birth: as which module of the process it was made; None when that was not seen.
    """

    path: str
    prefix: str
    kind: str
    birth: int | None
    module: nn.Module


class TrackedObjects:
    """Finds roots, optimizers, schedulers and scalers, each kind in a steady order.

    Attributes:
        book: knows the modules.

    Args:
        book: the value of the attribute.
        optimizers: knows the optimizers.
    """

    def __init__(self, book: NameBook, optimizers: OptimizerObserver) -> None:
        self.book, self._optimizers = book, optimizers
        self._made: dict[str, int] = {}
        self._schedulers: ByIdentity[Any, str] = ByIdentity()
        self._scalers: ByIdentity[Any, str] = ByIdentity()

    def scheduler_made(self, scheduler: Any) -> None:
        """A learning rate scheduler was constructed."""
        if scheduler not in self._schedulers:
            self._schedulers[scheduler] = self._label(scheduler)

    def scaler_made(self, scaler: Any) -> None:
        """A gradient scaler was constructed."""
        if scaler not in self._scalers:
            self._scalers[scaler] = self._label(scaler)

    def _label(self, of: Any) -> str:
        kind = type(of).__name__
        number = self._made[kind] = self._made.get(kind, -1) + 1
        return f"{kind}#{number}" if number else kind

    def roots(self) -> Iterator[TrackedRoot]:
        """Every module that user code has called, in the order of its first call."""
        for root in self.book.roots:
            module = root.module()
            if module is not None:
                birth = self.book.birth(module)
                yield TrackedRoot(root.path, root.prefix, class_name(module), birth, module)

    def modules(self) -> list[nn.Module]:
        """Those of `roots` alone."""
        return [m for root in self.book.roots if (m := root.module()) is not None]

    def uncalled(self) -> Iterator[TrackedRoot]:
        """Every other module that was seen to be made and is no part of one, in that order."""
        for module, birth in self.book.tops():
            if self.book.root_of(module) is None:
                yield TrackedRoot("", "", class_name(module), birth, module)

    def optimizers(self) -> Iterator[tuple[str, Optimizer]]:
        """Every optimizer and its name."""
        return ((known.name, optimizer) for known, optimizer in self._optimizers.alive())

    def schedulers(self) -> Iterator[tuple[str, Any]]:
        """Every learning rate scheduler and its name."""
        return ((name, scheduler) for scheduler, name in self._schedulers.items())

    def scalers(self) -> Iterator[tuple[str, Any]]:
        """Every gradient scaler and its name."""
        return ((name, scaler) for scaler, name in self._scalers.items())
