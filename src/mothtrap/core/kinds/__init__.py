"""Registry of the kinds of tensors, used for selection, storage, and reading.

A module of this package, or of an entry point of `mothtrap.core.kinds`, lists its kinds as `KINDS`.
Tensors of a kind that is not installed are stored and read anyway.
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import Literal

import msgspec

from mothtrap.core import registry
from mothtrap.core.errors import PluginError

Origin = Literal["state", "gradient", "forward", "backward", "loss", "model", "log"]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of tensors.

    Attributes:
        name: singular; a tensor's text form is `name:...`.
        plural: the built-in collection of all tensors of the kind.
        priority: priority when captures are skipped; activations are skipped first, gradients last.
        merges: each worker has the whole tensor unless it is marked as a shard.
        of: origin of the tensors; data of a `forward` waits until the mode of the forward is known.
        usual: captured by `capture = "everything"`, and if only modules are specified.
        costly: computed only on request, so `*` does not select it.
    """

    name: str
    plural: str
    priority: Literal["gradients", "weights", "activations"] = "activations"
    merges: bool = False
    of: Origin = "forward"
    usual: bool = False
    costly: bool = False


@functools.cache
def kinds() -> MappingProxyType[str, Kind]:
    """Return all kinds by name, built-in kinds first, in the order in which they are searched."""
    found: dict[str, Kind] = {}
    for part in registry.parts(__name__):
        try:
            listed = part.load().KINDS
        except (PluginError, AttributeError):
            if not part.origin:
                raise
            continue
        for kind in listed:
            found.setdefault(kind.name, kind)
    return MappingProxyType(found)


@functools.cache
def names() -> tuple[str, ...]:
    """Return the names of all kinds, in order."""
    return tuple(kinds())


@functools.cache
def plurals() -> MappingProxyType[str, str]:
    """Return the kind of each built-in collection, by its name."""
    return MappingProxyType({kind.plural: kind.name for kind in kinds().values()})


@functools.cache
def usual() -> tuple[str, ...]:
    """Return the kinds that are captured if no kind is named."""
    return tuple(kind.name for kind in kinds().values() if kind.usual)


@functools.cache
def uncostly() -> tuple[str, ...]:
    """Return the kinds that wildcards match."""
    return tuple(kind.name for kind in kinds().values() if not kind.costly)


@functools.cache
def made_by(*origins: Origin) -> frozenset[str]:
    """Return the kinds that have one of the given origins."""
    return frozenset(kind.name for kind in kinds().values() if kind.of in origins)


def kind_of(name: str) -> Kind:
    """Return the kind with a name; a kind that is not installed gets default properties."""
    return kinds().get(name) or Kind(name=name, plural=f"{name}s", of="model")


def position(name: str) -> int:
    """Return the position of a kind among all kinds; kinds that are not installed come last."""
    known = names()
    return known.index(name) if name in kinds() else len(known)
