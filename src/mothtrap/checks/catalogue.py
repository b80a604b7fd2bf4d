"""All checks: one per file of `proofs`, `data`, and `baselines`."""

from __future__ import annotations

import functools

from mothtrap.checks.check import Check
from mothtrap.core import registry

PACKAGES = tuple(f"mothtrap.checks.{name}" for name in ("proofs", "data", "baselines"))


@functools.cache
def checks() -> tuple[type[Check], ...]:
    """Return all checks, the cheapest first."""
    found = [
        registry.only_class(part.load(), Check, "check")
        for package in PACKAGES
        for part in registry.parts(package)
    ]
    return tuple(sorted(found, key=lambda check: (check.costs, check.code)))
