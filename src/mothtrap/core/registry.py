"""Find the parts of a package: built-in parts by file name, others by entry point.

A built-in part is one file; no other file needs to be edited. A part of another package is an entry
point whose group is the dotted name of the package, e.g. `mothtrap.rules`, and whose value is a
module that ends in the entry point's name:

    [project.entry-points."mothtrap.rules"]
    slow_loader = "their_package.slow_loader"
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from itertools import chain
from types import ModuleType
from typing import Any

from mothtrap.core.errors import PluginError, UnknownNameError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a package, not imported yet; `entry_point` is None for a built-in part."""

    package: str
    name: str
    entry_point: EntryPoint | None = None

    @property
    def origin(self) -> str:
        """Name and version of the package that contains the part; '' for built-in parts."""
        if self.entry_point is None:
            return ""
        dist = self.entry_point.dist
        return f"{dist.name} {dist.version}" if dist else "an unnamed distribution"

    def load(self) -> ModuleType:
        """Import the part.

        Raises:
            PluginError: the plugin cannot be imported, or is not a valid module.
        """
        if self.entry_point is None:
            return importlib.import_module(f"{self.package}.{self.name}")
        try:
            module = self.entry_point.load()
        except (Exception, SystemExit) as err:  # importing a plugin can raise anything
            raise self.fault(f"{type(err).__name__}: {err}") from err
        if not isinstance(module, ModuleType) or module.__name__.rpartition(".")[2] != self.name:
            raise self.fault(
                f"{self.entry_point.value!r} is not a module whose name ends in {self.name!r}"
            )
        return module

    def fault(self, reason: str) -> PluginError:
        """Return an error that explains why a plugin cannot be used."""
        return PluginError(
            f"{self.name!r} of {self.origin} (entry point of {self.package})", reason
        )


def parts(package: str) -> tuple[Part, ...]:
    """Return the parts of a package: built-in parts first, each group sorted by name.

    Only the package itself is imported. If parts have the same name, the first one counts, so
    built-in parts take precedence.

    Args:
        package: dotted name, e.g. `mothtrap.rules`.
    """
    path = tuple(importlib.import_module(package).__path__)
    found = {name: Part(package=package, name=name) for name in _modules(path)}
    points = chain.from_iterable(_entry_points(folder) for folder in dict.fromkeys(sys.path))
    others = [point for point in points if point.group == package]
    for point in sorted(others, key=lambda p: (p.name, p.dist.name if p.dist else "")):
        found.setdefault(point.name, Part(package=package, name=point.name, entry_point=point))
    return tuple(found.values())


@lru_cache(maxsize=64)
def _modules(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the modules in a package's folders; listing a folder takes 2 ms."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_")))


@lru_cache(maxsize=64)
def _entry_points(folder: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a folder; reading them opens a file for each distribution."""
    return tuple(chain.from_iterable(d.entry_points for d in distributions(path=[folder])))


def names(package: str) -> tuple[str, ...]:
    """Return the names of the parts of a package, sorted, without importing them."""
    return tuple(sorted(part.name for part in parts(package)))


def load(package: str, name: str) -> ModuleType:
    """Import one part by name.

    Raises:
        UnknownNameError: the package has no such part; the message suggests one.
        PluginError: the part is a plugin that cannot be imported.
    """
    known = {part.name: part for part in parts(package)}
    if name not in known:
        raise UnknownNameError(
            f"{package} has no {name!r}{nearest(name, known)}; it has: {', '.join(sorted(known))}"
        )
    return known[name].load()


def only_class(module: ModuleType, base: type[Any], noun: str) -> type[Any]:
    """Return the only concrete class in a module that derives from `base`.

    Args:
        module: module of a package with one such class per file.
        base: base class; abstract and imported classes do not count.
        noun: name for such a class in messages.

    Raises:
        UnknownNameError: the module has none, or several.
    """
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    found: list[type[Any]] = [
        value for value in own if issubclass(value, base) and not inspect.isabstract(value)
    ]
    if len(found) != 1:
        raise UnknownNameError(
            f"{module.__name__} defines {len(found)} {noun}s; a file defines one {noun} class"
        )
    return found[0]
