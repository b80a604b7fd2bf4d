"""Manifests of nodes: lists of the objects that a node has sent to the object store.

A reader of a job on many nodes lists one folder per node, and finds the new objects in its
manifests. Without manifests, it would have to list one folder per worker.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass, field

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import ObjectExistsError
from mothtrap.store.objects import ObjectInfo, Store
from mothtrap.store.processes import start_ticks

FOLDER = "sent"
"""Subfolder of a node with its manifests, so that a listing contains only manifests."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that a node has uploaded since its last manifest, in order.

    Attributes:
        sent_s: Unix time of the manifest, by the clock of the node.
        objects: key in the run, and bytes, of each object.
        ranks: workers of the node.
        world_size: number of workers of the job; 0 if unknown so far.
    """

    sent_s: float
    objects: tuple[tuple[str, int], ...] = ()
    ranks: tuple[int, ...] = ()
    world_size: int = 0

    @property
    def infos(self) -> list[ObjectInfo]:
        """The objects, in the form of a store listing."""
        return [ObjectInfo(key=k, size=size, modified_s=self.sent_s) for k, size in self.objects]


@dataclass(slots=True)
class Node:
    """One launcher with its workers; shared by the threads that merge and send their data.

    Attributes:
        name: eight hexadecimal digits, different for each launcher.
        ranks: workers of the node.
        world_size: number of workers of the job; 0 if unknown so far.
        detailed: workers whose own logs are also sent.
    """

    name: str
    ranks: set[int] = field(default_factory=set)
    world_size: int = 0
    detailed: set[int] = field(default_factory=set)

    @classmethod
    def of_this_process(cls) -> Node:
        """Return the node of this launcher, without workers."""
        who = f"{socket.gethostname()} {os.getpid()} {start_ticks(os.getpid())}"
        return cls(hashlib.sha256(who.encode()).hexdigest()[:8])


class ManifestSender:
    """Writes the manifests of a node.

    Args:
        store: store of the run.
        folder: key of the node's folder in the run, e.g. `1/n0123abcd`.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._next = 0

    def send(self, manifest: Manifest) -> None:
        """Write the next manifest.

        Raises:
            StoreError: it was not written, as far as is known.
        """
        data = jsonable.encode(manifest)
        while True:
            key = f"{self._folder}/{FOLDER}/{self._next:08d}.json"
            try:
                self._store.put_if_absent(key, data)
            except ObjectExistsError:  # may be our own, if the answer was lost
                self._next += 1
                if self._store.get(key) != data:
                    continue
                return
            self._next += 1
            return
