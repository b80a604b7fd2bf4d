"""Modules that were loaded since the last call."""

from __future__ import annotations

import sys
import threading
from itertools import takewhile
from types import ModuleType

MAIN = "__main__"


class LoadedModules:
    """Finds the modules that were added to `sys.modules` since the last call to `look`.

    A visit of some thousand modules takes 10 ms. In a forked process it takes 40 ms, because the
    memory of each module that is visited is copied.
    """

    def __init__(self) -> None:
        self._count, self._last = 0, ""
        self._last_module: ModuleType | None = None
        self._lock = threading.Lock()

    def look(self) -> tuple[dict[str, ModuleType], bool]:
        """Return modules by name, and whether these are all modules or only new modules.

        They are all modules in the first call, and if a module was removed since the last call.
        `__main__` is always among them, as Python and notebooks replace it.
        """
        with self._lock:
            added = self._added()
            found = (
                dict(sys.modules) if added is None else {name: sys.modules[name] for name in added}
            )
            self._count = len(found) if added is None else self._count + len(found)
            if found:
                self._last, self._last_module = next(reversed(found.items()))
        found[MAIN] = sys.modules[MAIN]
        return found, added is None

    def _added(self) -> list[str] | None:
        """Return the names at the end of `sys.modules`, which keeps the order of imports."""
        try:
            count = len(sys.modules)
            names = list(takewhile(lambda name: name != self._last, reversed(sys.modules)))
            is_there = sys.modules.get(self._last) is self._last_module is not None
            is_end = is_there and self._count + len(names) == count
        except RuntimeError:  # another thread imports a module
            return None
        return names[::-1] if is_end else None
