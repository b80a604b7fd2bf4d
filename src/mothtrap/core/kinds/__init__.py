"""The kinds of tensors: one registry that selection, storage and reading go by.

A module of this package, or one that an entry point of `mothtrap.core.kinds` names, lists
its kinds as `KINDS`. Tensors of a kind that is not installed are stored and read all the same.
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
        priority: what it is thinned with; activations are thinned first, gradients last.
        merges: each worker that is not told to hold a shard has the whole.
        of: where it comes from; what is of a `forward` waits until its mode is known.
        usual: captured by `capture = "everything"`, and where only modules are named.
        costly: it is worked out for whoever asks, so `*` does not choose it.
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
    """Return all kinds by name, ours first: what is searched for by name alone is the first."""
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
    """Return the kinds that are captured where no kind is named."""
    return tuple(kind.name for kind in kinds().values() if kind.usual)


@functools.cache
def uncostly() -> tuple[str, ...]:
    """Return the kinds that wildcards choose among."""
    return tuple(kind.name for kind in kinds().values() if not kind.costly)


@functools.cache
def made_by(*origins: Origin) -> frozenset[str]:
    """Return the kinds that come from any of some origins."""
    return frozenset(kind.name for kind in kinds().values() if kind.of in origins)


def kind_of(name: str) -> Kind:
    """Return the kind of a name; one that is not installed has the defaults."""
    return kinds().get(name) or Kind(name=name, plural=f"{name}s", of="model")


def position(name: str) -> int:
    """Return the place of a kind among all; those that are not installed come last."""
    known = names()
    return known.index(name) if name in kinds() else len(known)
