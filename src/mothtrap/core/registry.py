"""Finds the parts of a package by their file names: a new part is one file, no edit."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from mothtrap.core.errors import UnknownNameError, nearest


def names(package: str) -> tuple[str, ...]:
    """Return the public modules of a package, sorted, without importing them.

    Args:
        package: dotted name, e.g. `mothtrap.rules`.
    """
    path = importlib.import_module(package).__path__
    return tuple(sorted(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_")))


def load(package: str, name: str) -> ModuleType:
    """Import the one module asked for.

    Raises:
        UnknownNameError: the package has no such module; names the nearest.
    """
    known = names(package)
    if name not in known:
        raise UnknownNameError(
            f"{package} has no {name!r}{nearest(name, known)}; it has: {', '.join(known)}"
        )
    return importlib.import_module(f"{package}.{name}")
