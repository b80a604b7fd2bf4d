"""The record of a run for the page: answers, files that were logged, labels, CSV of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import ConfigError, UnknownNameError
from mothtrap.core.labels import LabelKind
from mothtrap.core.masking import without_secrets
from mothtrap.core.png import SIGNATURE
from mothtrap.reader.record.items import Item, read_bytes
from mothtrap.report.record import RunRecord, answers, recorded
from mothtrap.store.labels import put_label

if TYPE_CHECKING:
    from mothtrap.web.opened import OpenRun

KINDS = {".png": "image/png", ".json": "application/json", ".txt": "text/plain; charset=utf-8"}
"""Types under which files are sent; all others are sent as bytes to be saved."""
BYTES = "application/octet-stream"


class RecordAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The record, and its answers as text by question."""

    told: RunRecord
    answers: dict[str, str]


class LabelCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tag, note or group."""

    text: str = ""


def record_answer(opened: OpenRun) -> RecordAnswer:
    """Return the record of a run."""
    told = recorded(opened.run)
    return RecordAnswer(told=told, answers=answers(told))


def item_of(opened: OpenRun, number: int) -> Item:
    """Return a logged item by its number.

    Raises:
        UnknownNameError: there is no such item.
    """
    items = opened.run.record.items
    if not 0 <= number < len(items):
        raise UnknownNameError(
            f"{opened.run.id} has {len(items)} logged items, and none has the number {number}"
        )
    return items[number]


def item_bytes(opened: OpenRun, number: int) -> tuple[bytes, str]:
    """Return an item's file and its content type; raises the same errors as `read_bytes`."""
    item = item_of(opened, number)
    data = read_bytes(opened.path, item)
    kind = KINDS.get(Path(item.file).suffix, BYTES)
    if kind == KINDS[".txt"]:
        data = without_secrets(data.decode("utf-8", "replace")).encode()
    elif kind == KINDS[".json"]:
        data = _json_without_secrets(data)
    is_image = kind == "image/png" and data.startswith(SIGNATURE)
    return data, kind if is_image or not kind.startswith("image/") else BYTES


def _json_without_secrets(data: bytes) -> bytes:
    try:
        return jsonable.shown(msgspec.json.decode(data))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return without_secrets(data.decode("utf-8", "replace")).encode()


def labeling(kind: LabelKind) -> Callable[[Path, bytes], str]:
    """Return the handler that labels a run."""

    def carry_out(path: Path, body: bytes) -> str:
        try:
            command = msgspec.json.decode(body, type=LabelCommand)
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            raise ConfigError(f"the request cannot be read: {err}") from err
        put_label(path, kind, command.text)
        return f"{path.name}: {kind} {command.text}".strip()

    return carry_out
