"""Curves of runs that have ended, in the user's cache: 200 are drawn without opening a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from mothtrap.web.buckets import Buckets
from mothtrap.web.cache_file import CACHE_ERRORS, CacheFile

FORMAT = 1
"""Grows when the same mothtrap would draw a curve differently."""
MOST_NAMES = 500
"""Maximum number of names in a query; SQLite allows 999."""
_SCHEMA = (
    "create table if not exists curves "
    "(name text, about text, signature text, curve blob, primary key (name, about))"
)


class FoundCurve(NamedTuple):
    """The curve of a run, or the reason why it has no curve, and the parameters of the run."""

    buckets: Buckets
    note: str
    parameters: dict[str, str]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    step: bytes
    low: bytes
    high: bytes
    last: bytes
    bad: bytes
    width: int
    note: str
    parameters: dict[str, str]


class CurveCache:
    """Cached curves of one location of runs. If the cache is unusable, curves are not cached.

    Args:
        where: the location.
    """

    def __init__(self, where: str) -> None:
        self._file = CacheFile((where, str(FORMAT)), "curves", _SCHEMA)

    def read(self, names: Sequence[str], about: str) -> dict[str, tuple[str, FoundCurve]]:
        """Return the cached curves with the fingerprint of their run, by run name.

        Args:
            names: names of the runs.
            about: scalar and size of the curves.
        """
        found = {}
        with suppress(*CACHE_ERRORS), self._file.opened() as database:
            for begin in range(0, len(names), MOST_NAMES):
                part = names[begin : begin + MOST_NAMES]
                marks = ", ".join("?" * len(part))
                query = (
                    "select name, signature, curve from curves "
                    f"where about = ? and name in ({marks})"
                )
                for name, signature, data in database.execute(query, (about, *part)):
                    with suppress(msgspec.DecodeError, ValueError, TypeError):
                        found[name] = signature, _decoded(data)
        return found

    def write(self, about: str, curves: Sequence[tuple[str, str, FoundCurve]]) -> None:
        """Cache curves: the name of each run, its fingerprint, and its curve."""
        if not curves:
            return
        rows = [(name, about, look, _encoded(curve)) for name, look, curve in curves]
        with suppress(*CACHE_ERRORS), self._file.opened() as database:
            database.executemany("insert or replace into curves values (?, ?, ?, ?)", rows)


def _encoded(curve: FoundCurve) -> bytes:
    buckets = curve.buckets
    data = msgspec.msgpack.encode(
        _Stored(
            buckets.step_B.astype("<i8").tobytes(),
            buckets.min_B.astype("<f8").tobytes(),
            buckets.max_B.astype("<f8").tobytes(),
            buckets.last_B.astype("<f8").tobytes(),
            buckets.bad_B.tobytes(),
            buckets.width,
            curve.note,
            curve.parameters,
        )
    )
    return bytes(xxhash.xxh3_64_digest(data)) + data


def _decoded(data: bytes) -> FoundCurve:
    """Return a curve from its bytes.

    Raises:
        ValueError: they are damaged.
    """
    digest, body = data[:8], data[8:]
    if digest != xxhash.xxh3_64_digest(body):
        raise ValueError("damaged")
    stored = msgspec.msgpack.decode(body, type=_Stored)
    buckets = Buckets(
        step_B=np.frombuffer(stored.step, "<i8").astype(np.int64),
        min_B=np.frombuffer(stored.low, "<f8"),
        max_B=np.frombuffer(stored.high, "<f8"),
        last_B=np.frombuffer(stored.last, "<f8"),
        bad_B=np.frombuffer(stored.bad, np.uint8),
        width=stored.width,
    )
    return FoundCurve(buckets, stored.note, stored.parameters)
