"""Send a run's folder to an object store, in an order that readers can rely on.

An `events` segment of a worker is sent after the sealed segments of all other tables that its
steps need (see `WorkerLog`). Segments of a kind are sent in order, and `end.json` is sent last.
So the objects that an object refers to always exist.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mothtrap.core.errors import MothtrapError, ObjectExistsError
from mothtrap.store import control_inbox, layout
from mothtrap.store.layout import COMMITS
from mothtrap.store.manifests import Manifest, ManifestSender, Node
from mothtrap.store.objects import Store, open_store
from mothtrap.store.sealing import is_sealed
from mothtrap.store.stalls import SIGN

_PRIVATE = ("remote.json", "writer.json", SIGN)
"""Files that are meaningful only on this machine."""
_WORKER = re.compile("w(0|[1-9][0-9]*)")
AT_ONCE = 16
"""Number of worker folders that are sent concurrently; chosen by hand."""
BEAT_S = 5.0
"""Maximum pause between two manifests of a node; chosen by hand."""


class CollisionError(MothtrapError):
    """Another job has written part of this run."""


class UploadQueue:
    """Queue of a run's files to upload; segments of tensors are deleted once uploaded.

    The list of sent data is stored next to the run, so that another process can continue.

    Args:
        run: the folder of the run.
        url: URL of the run.
        keep_raw: whether segments of tensors are kept.
        node: node whose workers are merged. Only the logs of its `detailed` workers are sent, and a
            manifest after each round. None: all logs are sent, without manifests.
    """

    def __init__(
        self, run: Path, url: str, *, keep_raw: bool = False, node: Node | None = None
    ) -> None:
        self._run, self._keep_raw, self._node = run, keep_raw, node
        self._news: list[tuple[str, int]] = []
        self._manifests: dict[str, ManifestSender] = {}
        self._manifest_s = float("-inf")
        self._store: Store = open_store(url)
        self._lock = threading.Lock()
        self._reached: dict[tuple[Path, str], int] = {}
        self._list = run / f".sent-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
        self._sent = _read_lines(self._list)

    def send(self, *, final: bool) -> int:
        """Upload the files that are ready; return the number of objects.

        Args:
            final: no more data is written, so all files are ready, complete or not.

        Raises:
            StoreError: some files could not be sent; call again later. All others were sent.
            CollisionError: an object exists and belongs to another job.
        """
        before = len(self._sent)
        attempts = [layout.attempt_folder(self._run, n) for n in layout.attempts(self._run)]
        for attempt in attempts[:1]:
            self.send_description(attempt)
        for attempt in attempts[1:]:
            try:
                self.send_description(attempt)
            except CollisionError:  # launchers restart together: the first one reports it
                self._note(self._key(attempt / "run.json"))
        for path in sorted((self._run / control_inbox.FOLDER).glob("*.json")):
            self._send(path)
        folders = [path for attempt in attempts for path in self._recorders(attempt)]
        errors: list[Exception] = []
        for begin in range(0, len(folders), AT_ONCE):
            self._send_folders(folders[begin : begin + AT_ONCE], final, errors)
        if errors:
            raise errors[0]
        if final:
            for path in self.left():
                self._send(path)
        self._send_manifest()
        return len(self._sent) - before

    def send_description(self, attempt: Path) -> None:
        """Upload `run.json` of an attempt; raises the same errors as `send`."""
        self._send(attempt / "run.json")

    def has_all(self) -> None:
        """Mark everything in the folder as uploaded, because it was fetched from the store."""
        for path in self.left():
            self._note(self._key(path))

    def left(self) -> list[Path]:
        """Return the files that remain to be uploaded, `end.json` last."""
        files = (p for p in self._run.rglob("*") if p.is_file() and self._key(p) not in self._sent)
        found = [p for p in files if not (self._is_private(p) or self._is_kept(p))]
        return sorted(found, key=lambda path: (_is_end(path), path))

    @property
    def keeps_details(self) -> bool:
        """True if logs of workers stay on this machine because the node uploads merged logs."""
        return any(self._is_kept(path) for path in self._run.glob("*/w*/*"))

    def _is_kept(self, path: Path) -> bool:
        """Return whether a file belongs to the log of a worker that is not sent."""
        folder = next((p for p in path.relative_to(self._run).parts if _WORKER.fullmatch(p)), "")
        return self._node is not None and bool(folder) and not self._sends(int(folder[1:]))

    def _sends(self, rank: int) -> bool:
        return self._node is None or rank in self._node.detailed

    def _recorders(self, attempt: Path) -> list[Path]:
        ranks = filter(self._sends, layout.workers(attempt))
        workers = [layout.worker_folder(attempt, rank) for rank in ranks]
        monitors = [layout.monitor_folder(attempt, number) for number in layout.monitors(attempt)]
        return [
            *workers,
            *monitors,
            *(layout.node_folder(attempt, n) for n in layout.nodes(attempt)),
        ]

    def _send_manifest(self) -> None:
        """List the objects sent since the last manifest for readers; raises StoreError."""
        is_due = self._news or time.monotonic() - self._manifest_s >= BEAT_S
        if self._node is None or not is_due:
            return
        attempt = max(layout.attempts(self._run), default=layout.FIRST_ATTEMPT)
        folder = layout.node_folder(Path(str(attempt)), self._node.name).as_posix()
        if folder not in self._manifests:
            self._manifests[folder] = ManifestSender(self._store, folder)
        with self._lock:
            news = tuple(self._news)
        self._manifests[folder].send(
            Manifest(
                sent_s=time.time(),
                objects=news,
                ranks=tuple(sorted(self._node.ranks)),
                world_size=self._node.world_size,
            )
        )
        self._manifest_s = time.monotonic()
        with self._lock:
            del self._news[: len(news)]

    def _send_folders(self, folders: list[Path], final: bool, errors: list[Exception]) -> None:
        def send(folder: Path) -> None:
            try:
                self._send_folder(folder, final)
            except (MothtrapError, OSError) as err:
                errors.append(err)

        threads = [
            threading.Thread(target=send, args=(folder,), daemon=True, name="mothtrap-send")
            for folder in folders
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send_folder(self, folder: Path, final: bool) -> None:
        # The commits are read first, because everything that they need is sealed before them.
        commits = list(self._ready(folder, COMMITS, final))
        contents = [table for table in layout.tables(folder) if table not in COMMITS]
        for path in (*self._ready(folder, contents, final), *commits):
            self._send(path)
            if path.name.startswith("raw-") and not self._keep_raw:
                path.unlink(missing_ok=True)

    def _ready(self, folder: Path, tables: Sequence[str], final: bool) -> Iterator[Path]:
        """Yield unsent segments that will not change any more, by table, in order."""
        for table in tables:
            # Continue where the last call stopped, because a folder may contain thousands of sent
            # segments.
            number = self._reached.get((folder, table), 0)
            while self._key(path := layout.segment_path(folder, table, number)) in self._sent:
                number += 1
            self._reached[folder, table] = number
            while path.exists():
                number += 1
                later = layout.segment_path(folder, table, number)
                if not (final or later.exists() or is_sealed(path)):
                    break
                yield path
                path = later

    def _send(self, path: Path) -> None:
        key = self._key(path)
        if key in self._sent:
            return
        size = path.stat().st_size
        try:
            self._store.put_if_absent(key, path)
        except ObjectExistsError as err:
            # Usually our own object: the answer to an earlier attempt was lost.
            if not self._is_there(key, path):
                raise CollisionError(
                    f"{err}; it differs from {path}, so another job has written it; "
                    "upload this run under another name with `mothtrap upload --name`"
                ) from err
        self._note(key)
        if self._node is not None:
            with self._lock:
                self._news.append((key, size))

    def _note(self, key: str) -> None:
        with self._lock:
            self._sent.add(key)
            with self._list.open("a", encoding="utf-8") as file:
                file.write(f"{key}\n")

    def _is_there(self, key: str, path: Path) -> bool:
        return self._store.get(key) == path.read_bytes()

    def _key(self, path: Path) -> str:
        return path.relative_to(self._run).as_posix()

    def _is_private(self, path: Path) -> bool:
        parts = path.relative_to(self._run).parts
        return any(part.startswith(".") or part in _PRIVATE for part in parts)


def _is_end(path: Path) -> bool:
    return path.name == "end.json"


def _read_lines(path: Path) -> set[str]:
    try:
        return set(path.read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return set()
