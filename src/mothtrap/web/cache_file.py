"""A small database in the user's cache folder, for data read from runs."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from mothtrap.core.own_version import own_version
from mothtrap.store.remote import cache_folder

CACHE_ERRORS = (OSError, sqlite3.Error)
"""Raised where the cache cannot be used; a damaged database is deleted first."""


class CacheFile:
    """A database that only the user can read, with a separate file per version of mothtrap.

    Args:
        words: dependencies of the content, such as the folder of the runs.
        suffix: suffix of the file's name.
        schema: SQL that creates the tables that do not exist yet.
    """

    def __init__(self, words: Sequence[str], suffix: str, schema: str) -> None:
        of = "\0".join((*words, own_version()))
        name = hashlib.sha256(of.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._file, self._schema = cache_folder() / "ui" / f"{name}.{suffix}", schema

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Open the database inside a block, and commit at its end.

        Raises:
            OSError, sqlite3.Error: it cannot be used.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with closing(_connected(self._file, self._schema)) as database, database:
            yield database


def _connected(file: Path, schema: str) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=1.0)
    try:
        file.chmod(0o600)
        database.execute("pragma synchronous = off")  # rows lost in a crash are read again
        database.execute(schema)
    except CACHE_ERRORS as err:
        database.close()
        if type(err) is sqlite3.DatabaseError:  # damaged, rather than locked
            file.unlink(missing_ok=True)
        raise
    return database
