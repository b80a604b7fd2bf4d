"""The seams of the house: what adapters, stores and their users promise each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable


@runtime_checkable
class Handle(Protocol):
    """What `attach` returns."""

    def detach(self) -> None:
        """Remove every hook and restore everything that was replaced."""


class Store(Protocol):
    """Keys and bytes, local or remote; knows no meaning."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write a new object whole; False when the key exists."""

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a part of it. Raises KeyError when absent."""

    def list(self, prefix: str = "") -> Iterator[str]:
        """Keys under a prefix, ascending."""

    def delete(self, key: str) -> None:
        """Remove an object; no error when absent."""
