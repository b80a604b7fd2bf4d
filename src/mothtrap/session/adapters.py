"""Finding the adapter of a framework, or of an object, through the registry."""

from __future__ import annotations

import sys
from typing import cast

from mothtrap.core import registry
from mothtrap.core.adapters import Adapter

PACKAGE = "mothtrap.adapters"
TRIGGERS = {
    "sklearn": ("sklearn.linear_model", "sklearn.neural_network"),
    "lightning": ("lightning.pytorch", "pytorch_lightning"),
    "transformers": ("transformers.trainer",),
    "tensorboard": ("torch.utils.tensorboard", "tensorboardX"),
}
"""Imports that load an adapter, where nearly every script imports the framework for other parts,
or where it has another name."""


def triggers() -> tuple[str, ...]:
    """Return the imports after which an adapter is to be loaded, that of `framework_of` each."""
    return tuple(name for each in frameworks() for name in TRIGGERS.get(each, (each,)))


def framework_of(trigger: str) -> str:
    """Return the framework whose adapter an import loads."""
    return next((name for name, of in TRIGGERS.items() if trigger in of), trigger)


def frameworks() -> tuple[str, ...]:
    """Return the names of all frameworks that have an adapter, sorted; imports none."""
    return registry.names(PACKAGE)


def load(framework: str) -> Adapter:
    """Import an adapter, and with it the framework.

    Raises:
        UnknownNameError: there is none of that name.
        PluginError: it is of another distribution, and cannot be imported.
    """
    return cast(Adapter, registry.load(PACKAGE, framework))


def adapters_of(target: object) -> tuple[Adapter, ...]:
    """Return the adapters that watch an object, by the modules of its type and its bases.

    That of the most derived type counts, else one of an imported framework that accepts it (a
    tree of arrays is a plain `dict`); one that it refines comes before it.

    Raises:
        TypeError: no adapter accepts it.
    """
    known = frameworks()
    roots = dict.fromkeys(base.__module__.partition(".")[0] for base in type(target).__mro__)
    imported = (name for name in known if name in sys.modules)
    for name in (*roots, *imported):
        if name in known and (adapter := load(name)).accepts(target):
            break
    else:
        raise TypeError(
            f"cannot watch a {type(target).__module__}.{type(target).__qualname__}: no adapter "
            f"accepts it; mothtrap knows models of: {', '.join(known)}"
        )
    found = [adapter]
    while (refined := found[0].refines()) is not None:
        found.insert(0, load(refined))
    return tuple(found)
