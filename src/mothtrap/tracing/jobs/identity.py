"""Dictionary whose keys are weakly referenced objects: tensors, modules, optimizers."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class OwnRef(weakref.ref[K]):
    """Weak reference held by mothtrap, distinguishable from the user's references."""

    __slots__ = ()


class ByIdentity(Generic[K, V]):
    """Values by weakly referenced key, compared by identity; removed when the key is deleted.

    Unlike `weakref.WeakKeyDictionary`, it never compares keys for equality, which tensors do
    element by element.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[OwnRef[K], V]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        entry = self._entries.get(id(key))
        return entry is not None and entry[0]() is key

    def __setitem__(self, key: K, value: V) -> None:
        number = id(key)
        self._entries[number] = (OwnRef(key, _forget(self._entries, number)), value)

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def turned(self) -> list[tuple[V, K]]:
        """Return every value with its existing key, in order of insertion."""
        found = []
        for reference, value in list(self._entries.values()):
            key = reference()
            if key is not None:
                found.append((value, key))
        return found

    def items(self) -> list[tuple[K, V]]:
        """Return every existing key with its value, in order of insertion."""
        entries = list(self._entries.values())
        return [(key, value) for reference, value in entries if (key := reference()) is not None]


def _forget(
    entries: dict[int, tuple[OwnRef[K], V]], number: int
) -> Callable[[weakref.ref[Any]], None]:
    def forget(reference: weakref.ref[Any]) -> None:
        entry = entries.get(number)
        # not the entry of a new object with the same id
        if entry is not None and entry[0] is reference:
            del entries[number]

    return forget
