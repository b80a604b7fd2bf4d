"""mothtrap: a debugger for machine-learning training.

Importing it loads no framework, patches nothing and starts nothing; each name below is
loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mothtrap.reader.run import Run as Run
    from mothtrap.reader.run import open_run as open_run
    from mothtrap.session.watching import Watch as Watch
    from mothtrap.session.watching import watch as watch

_HOMES = {
    "Run": "mothtrap.reader.run",
    "Watch": "mothtrap.session.watching",
    "open_run": "mothtrap.reader.run",
    "watch": "mothtrap.session.watching",
}

__all__ = ["Run", "Watch", "open_run", "watch"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mothtrap' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
