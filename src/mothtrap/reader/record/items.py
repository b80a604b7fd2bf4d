"""Items that a script has logged, and their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import DamagedDataError, UnknownNameError
from mothtrap.core.facts.record import ItemLogged
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.record_items import FILE, FOLDER, MAX_BYTES, Predictions, Table
from mothtrap.store.plain_files import read_plain

MAX_LIBRARY_BYTES = 32 << 20
T = TypeVar("T")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Logged text, table, image, artifact, figure, or predictions; see `facts.record.ItemLogged`.

    `number` is the item's number in its run. `worker` and `attempt` identify the process that
    logged it.
    """

    number: int
    name: str
    kind: str
    step: int
    worker: int
    attempt: int
    size_bytes: int
    digest: str
    about: dict[str, LedgerValue]
    file: str = ""
    library: str = ""
    time_s: float = 0.0


def items_of(logged: Iterator[tuple[int, int, ItemLogged]]) -> tuple[Item, ...]:
    """Return the items of a run.

    Args:
        logged: attempt, rank and fact, in order.
    """
    return tuple(
        Item(
            number=number,
            name=fact.name,
            kind=fact.kind,
            step=fact.step,
            worker=rank,
            attempt=attempt,
            size_bytes=fact.size_bytes,
            digest=fact.digest,
            about=fact.about,
            file=fact.file,
            library=fact.library,
            time_s=fact.time_s,
        )
        for number, (attempt, rank, fact) in enumerate(logged)
    )


def read_bytes(run: Path, item: Item, *, library: bool = False) -> bytes:
    """Return the file of an item, or the program that draws it.

    Links, unknown names, and other files that are not plain are refused.

    Raises:
        UnknownNameError: no file of the item was stored.
        DamagedDataError: the file was changed or is missing.
    """
    name = item.library if library else item.file
    if not name:
        raise UnknownNameError(f"only the digest of {item.name!r} is stored; log it with keep=True")
    path = run / str(item.attempt) / f"w{item.worker}" / FOLDER / name
    limit = MAX_LIBRARY_BYTES if library else MAX_BYTES.get(item.kind, 0)
    if not FILE.fullmatch(name):
        raise DamagedDataError(
            f"{name!r} is not the name of a file of the record, so it is not read"
        )
    try:
        return read_plain(path, limit, follow=False)
    except OSError as err:
        raise DamagedDataError(
            f"{path} cannot be read ({err.strerror}); the rest of the record can be read"
        ) from err


def read_table(run: Path, item: Item) -> Table:
    """Return the rows of a table; raises the same errors as `read_bytes`."""
    return _decoded(read_bytes(run, item), item, Table)


def read_predictions(run: Path, item: Item) -> Predictions:
    """Return the confusion matrix and curves; raises the same errors as `read_bytes`."""
    return _decoded(read_bytes(run, item), item, Predictions)


def _decoded(data: bytes, item: Item, kind: type[T]) -> T:
    try:
        return jsonable.decode(data, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise DamagedDataError(
            f"{item.file} ({item.kind} {item.name!r}) cannot be read: {err}; the rest of the "
            "record can be read"
        ) from err
