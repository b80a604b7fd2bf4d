"""The checks that exist: one per file of `proofs`, `data`, and `baselines`."""

from __future__ import annotations

import functools
import inspect

from mothtrap.checks.check import Check
from mothtrap.core import registry

PACKAGES = tuple(f"mothtrap.checks.{name}" for name in ("proofs", "data", "baselines"))


@functools.cache
def checks() -> tuple[type[Check], ...]:
    """Return all checks, the cheapest first."""
    found = [
        value
        for package in PACKAGES
        for part in registry.parts(package)
        for value in vars(part.load()).values()
        if inspect.isclass(value)
        and issubclass(value, Check)
        and not inspect.isabstract(value)
        and value.__module__ == f"{package}.{part.name}"
    ]
    return tuple(sorted(found, key=lambda check: (check.costs, check.code)))
