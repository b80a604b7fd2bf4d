"""mothtrap: a debugger for machine-learning training.

Importing it loads no framework, patches nothing and starts nothing; each name below is
loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mothtrap.core.collections import Collection as Collection
    from mothtrap.core.schedule import Schedule as Schedule
    from mothtrap.reader.run import Run as Run
    from mothtrap.reader.run import open_run as open_run
    from mothtrap.session.anywhere import log as log
    from mothtrap.session.anywhere import log_tensor as log_tensor
    from mothtrap.session.watching import Watch as Watch
    from mothtrap.session.watching import watch as watch

_HOMES = {
    "Collection": "mothtrap.core.collections",
    "Run": "mothtrap.reader.run",
    "Schedule": "mothtrap.core.schedule",
    "Watch": "mothtrap.session.watching",
    "log": "mothtrap.session.anywhere",
    "log_tensor": "mothtrap.session.anywhere",
    "open_run": "mothtrap.reader.run",
    "watch": "mothtrap.session.watching",
}

__all__ = ["Collection", "Run", "Schedule", "Watch", "log", "log_tensor", "open_run", "watch"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mothtrap' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
