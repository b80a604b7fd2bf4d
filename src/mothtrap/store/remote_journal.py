"""The journal of deliveries of a run in an object store: one small object per line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import ObjectExistsError, ObjectNotFoundError
from mothtrap.store.journal import FOLDER, Entry, Journal
from mothtrap.store.run_objects import store_of


class RemoteJournal(Journal):
    """A journal that other machines can continue.

    Lines are written to the mirror of the run and to its store. `hold` fetches the lines of other
    machines; the lease of the run prevents two machines from writing at the same time.

    Args:
        run: the mirror of the run.
        part: part of the rules whose findings are reported; "" is all of them.
    """

    def __init__(self, run: Path, part: str = "") -> None:
        super().__init__(run, part)
        self._store = store_of(run)
        self._objects = f"{FOLDER}/{part or 'all'}"

    def hold(self) -> bool:
        """Acquire the journal for writing, and fetch lines that others have written.

        Raises:
            StoreError: the store cannot be reached, or rejects the request.
            OSError: the file cannot be created or opened.
        """
        if not super().hold():
            return False
        known = {_name(entry) for entry in self.entries()}
        for info in self._store.list(self._objects):
            if info.key.rpartition("/")[2] not in known:
                with suppress(ObjectNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
                    super().note(jsonable.decode(self._store.get(info.key), Entry))
        return True

    def note(self, entry: Entry) -> None:
        """Write a line here and in the store.

        Raises:
            OSError: the line could not be written; one of the two places may have it.
        """
        super().note(entry)
        with suppress(ObjectExistsError):
            key = f"{self._objects}/{_name(entry)}"
            self._store.put_if_absent(key, jsonable.encode(entry))


def _name(entry: Entry) -> str:
    return f"{entry.id}-{entry.state}.json"
