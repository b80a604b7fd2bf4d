"""The seam between a session and the adapters of frameworks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Handle(Protocol):
    """What `attach` returns."""

    def detach(self) -> None:
        """Remove every hook and restore everything that was replaced."""
