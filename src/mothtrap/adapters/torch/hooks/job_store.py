"""Messages between the processes of a job, without waiting for each other."""

from __future__ import annotations

from typing import Any

import torch


class JobStore:
    """The store of the default process group.

    Args:
        store: store of `torch.distributed`.
        rank: rank of this process.
    """

    def __init__(self, store: Any, rank: int) -> None:
        self._store, self._rank = store, rank

    def count(self, what: str) -> int:
        """Count a call for a key, and return the number of earlier calls in this process."""
        return int(self._store.add(f"mothtrap/counts/{what}/{self._rank}", 1)) - 1

    def leave(self, key: str, text: str) -> None:
        """Publish a text for all processes."""
        self._store.set(f"mothtrap/left/{key}", text)

    def find(self, key: str) -> str | None:
        """Return the stored value, or None."""
        if not self._store.check([f"mothtrap/left/{key}"]):
            return None
        found: bytes = self._store.get(f"mothtrap/left/{key}")
        return found.decode()


def job_store() -> JobStore | None:
    """Return the store of this process's job; None for one process, or without a store."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    if distributed.get_world_size() < 2:
        return None
    # torch has no public name for this (as of 2.13).
    default: Any = getattr(distributed.distributed_c10d, "_get_default_store", None)
    return JobStore(default(), distributed.get_rank()) if default is not None else None
