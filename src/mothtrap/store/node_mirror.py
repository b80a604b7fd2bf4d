"""Fetch the objects that the nodes of an attempt have sent, as listed in their manifests.

Each read takes one list request per node. The manifests of a node in the mirror show which of its
objects were fetched, so that another process can continue where the previous process stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.store import fetching, layout
from mothtrap.store.manifests import FOLDER, Manifest
from mothtrap.store.objects import ObjectInfo, Store
from mothtrap.store.replacing import replace

Wanted = Callable[[str], bool]
_RECORDER = re.compile(r"[1-9][0-9]*/[wm][0-9]+")


class NodeMirror:
    """Nodes of one attempt, with the data fetched from them.

    Args:
        store: store of the run.
        mirror: folder of the run on this machine.
        wanted: returns whether to fetch the object of a key.

    Attributes:
        owned: folders of workers and monitors that manifests name, as keys.
        requests: number of list requests of the last read.
    """

    def __init__(self, store: Store, mirror: Path, wanted: Wanted) -> None:
        self._store, self._mirror, self._wanted = store, mirror, wanted
        self._last: dict[str, str] = {}
        self._ranks: dict[str, tuple[int, ...]] = {}
        self._world_size = 0
        self.owned: set[str] = set()
        self.requests = 0

    @property
    def has_all(self) -> bool:
        """True if the known nodes have all workers of the job, so no other node can appear."""
        found = {rank for ranks in self._ranks.values() for rank in ranks}
        return 0 < self._world_size <= len(found)

    def add(self, folder: str) -> None:
        """Start to fetch a node, given the key of its folder; does nothing for a known node."""
        if folder in self._last:
            return
        self._last[folder] = ""
        for path in sorted((self._mirror / folder / FOLDER).glob("*.json")):
            try:
                self._note(folder, path.name, jsonable.decode(path.read_bytes(), Manifest))
            except (OSError, msgspec.DecodeError):
                break  # it is fetched again, with all later ones

    def fetch(self) -> bool:
        """Fetch new data of all nodes; return whether there was any.

        Raises:
            StoreError: the store cannot be reached; all fetched files are complete.
        """
        self.requests = len(self._last)
        with ThreadPoolExecutor(fetching.AT_ONCE) as pool:
            news = dict(zip(self._last, pool.map(self._new, list(self._last)), strict=True))
        infos = [
            [info for _, manifest, _ in new for info in manifest.infos if self._lacks(info)]
            for new in news.values()
        ]
        fetching.bring(self._store, infos, self._mirror)
        for folder, new in news.items():
            for name, manifest, data in new:
                path = self._mirror / folder / FOLDER / name
                path.parent.mkdir(parents=True, exist_ok=True)
                replace(path, data)
                self._note(folder, name, manifest)
        return any(infos)

    def _new(self, folder: str) -> list[tuple[str, Manifest, bytes]]:
        return list(self._manifests(folder))

    def _manifests(self, folder: str) -> Iterator[tuple[str, Manifest, bytes]]:
        place = f"{folder}/{FOLDER}"
        last = self._last[folder]
        for info in self._store.list(place, f"{place}/{last}" if last else ""):
            data = self._store.get(info.key)
            yield info.key.rpartition("/")[2], jsonable.decode(data, Manifest), data

    def _note(self, folder: str, name: str, manifest: Manifest) -> None:
        self._last[folder] = name
        self._ranks[folder] = manifest.ranks
        self._world_size = max(self._world_size, manifest.world_size)
        for key, _ in manifest.objects:
            if found := _RECORDER.match(key):
                self.owned.add(found.group())

    def _lacks(self, info: ObjectInfo) -> bool:
        if not (self._wanted(info.key) and _is_plain(info.key)):
            return False
        try:
            status = (self._mirror / info.key).stat()
        except FileNotFoundError:
            return True
        return status.st_size != info.size


def node_folders(attempt: str, names: Sequence[str]) -> list[str]:
    """Return the keys of the node folders among an attempt's folders."""
    return [f"{attempt}/{name}" for name in names if layout.NODE.fullmatch(name)]


def _is_plain(key: str) -> bool:
    """Return whether a key names a file inside the run; manifests come from other machines."""
    parts = key.split("/")
    return not key.startswith("/") and all(p not in ("", ".", "..") for p in parts)
