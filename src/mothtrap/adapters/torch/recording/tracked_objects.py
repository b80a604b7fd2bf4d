"""The objects whose states make up the state of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.naming import NameBook, class_name
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.tracing.jobs.identity import ByIdentity


@dataclass(frozen=True, slots=True, eq=False)
class TrackedRoot:
    """A root module.

    Attributes:
        path: its name.
        prefix: prefix of the names of its parts; '' for the first root.
        birth: its number among the modules that the process created; None if its creation was not
            observed.
    """

    path: str
    prefix: str
    kind: str
    birth: int | None
    module: nn.Module


class TrackedObjects:
    """Finds roots, optimizers, schedulers and scalers, each in a stable order.

    Attributes:
        book: names of modules.

    Args:
        book: the value of the attribute.
        optimizers: known optimizers.
    """

    def __init__(self, book: NameBook, optimizers: OptimizerObserver) -> None:
        self.book, self._optimizers = book, optimizers
        self._made: dict[str, int] = {}
        self._schedulers: ByIdentity[Any, str] = ByIdentity()
        self._scalers: ByIdentity[Any, str] = ByIdentity()

    def scheduler_made(self, scheduler: Any) -> None:
        """Handle a new learning rate scheduler."""
        if scheduler not in self._schedulers:
            self._schedulers[scheduler] = self._label(scheduler)

    def scaler_made(self, scaler: Any) -> None:
        """Handle a new gradient scaler."""
        if scaler not in self._scalers:
            self._scalers[scaler] = self._label(scaler)

    def _label(self, of: Any) -> str:
        kind = type(of).__name__
        number = self._made[kind] = self._made.get(kind, -1) + 1
        return f"{kind}#{number}" if number else kind

    def roots(self) -> Iterator[TrackedRoot]:
        """Return every module that user code has called, in order of first call."""
        for root in self.book.roots:
            module = root.module()
            if module is not None:
                birth = self.book.birth(module)
                yield TrackedRoot(root.path, root.prefix, class_name(module), birth, module)

    def modules(self) -> list[nn.Module]:
        """Return the modules of `roots`."""
        return [m for root in self.book.roots if (m := root.module()) is not None]

    def uncalled(self) -> Iterator[TrackedRoot]:
        """Return every other top-level module, in order of construction."""
        for module, birth in self.book.tops():
            if self.book.root_of(module) is None:
                yield TrackedRoot("", "", class_name(module), birth, module)

    def optimizers(self) -> Iterator[tuple[str, Optimizer]]:
        """Return every optimizer with its name."""
        return ((known.name, optimizer) for known, optimizer in self._optimizers.alive())

    def schedulers(self) -> Iterator[tuple[str, Any]]:
        """Return every learning rate scheduler with its name."""
        return ((name, scheduler) for scheduler, name in self._schedulers.items())

    def scalers(self) -> Iterator[tuple[str, Any]]:
        """Return every gradient scaler with its name."""
        return ((name, scaler) for scaler, name in self._scalers.items())
