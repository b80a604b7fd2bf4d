"""Methods with which a session uses the declaration of an adapter and attaches the adapter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from mothtrap.core.adapters import Environment, Handle, Job


class Attachable:
    """Methods of `AdapterSpec`, which has these attributes and describes them."""

    __slots__ = ()

    framework: str
    handle: Callable[[Job, Sequence[object]], Handle]
    requires: str
    watched: tuple[type, ...] | Callable[[object], bool]
    beside: tuple[type, ...]
    refines: str | None
    place: Callable[[], Environment] | None

    def accepts(self, target: object) -> bool:
        """Return whether an object can be watched."""
        if isinstance(self.watched, tuple):
            return isinstance(target, self.watched)
        return self.watched(target)

    def attach(self, job: Job, targets: Sequence[object] = ()) -> Handle:
        """Observe objects: models, then their optimizers; without objects, the whole process.

        Raises:
            TypeError: an object cannot be watched. A refined adapter checks all but the first.
            AttributeError: the framework lacks a function, as in another version.
        """
        for target in targets[: 1 if self.refines else None]:
            if not (self.accepts(target) or isinstance(target, self.beside)):
                kind = type(target).__qualname__
                raise TypeError(f"cannot watch a {kind} with {self.framework}: {self._expected()}")
        try:
            return self.handle(job, targets)
        except AttributeError as err:
            raise AttributeError(
                f"{err}; the adapter requires {self.requires}, found {self.framework} "
                f"{self._version() or 'of an unknown version'}"
            ) from err

    def _expected(self) -> str:
        if not isinstance(self.watched, tuple):
            return f"expected objects of {self.framework}"
        names = [kind.__name__ for kind in (*self.watched, *self.beside)]
        return f"expected {' or '.join(names)}" if names else "use `mothtrap run`"

    def environment(self) -> Environment:
        """Return this process's position in its job, and the relevant versions."""
        if self.place is not None:
            return self.place()
        return Environment(versions={self.framework: self._version()})

    def _version(self) -> str:
        return str(getattr(sys.modules.get(self.framework), "__version__", ""))
