"""Remarks of people on runs: tags, notes, the group that a run belongs to, and archiving."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from mothtrap.core.jsonable import UnixTime

LabelKind = Literal["tag", "untag", "note", "group", "archive", "restore"]
LABEL_KINDS: tuple[LabelKind, ...] = ("tag", "untag", "note", "group", "archive", "restore")
MAX_TEXT = 4_000
"""Maximum number of characters in a note; chosen by hand."""
MAX_TAG = 100


class Label(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One label; `text` is the tag, note, or group ("" removes the run from its group).

    `at_s` is the Unix time in seconds, `by` the author.
    """

    kind: LabelKind
    text: str = ""
    at_s: UnixTime
    by: str = ""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note on a run."""

    text: str
    at_s: float
    by: str = ""


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """Tags, notes, and group that users gave a run, and whether it is archived."""

    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    group: str = ""
    archived: bool = False


def joined(labels: Iterable[Label]) -> Labels:
    """Apply a sequence of label changes, and return the resulting labels.

    Args:
        labels: label changes, oldest first.
    """
    tags: dict[str, None] = {}
    notes: list[Note] = []
    group, archived = "", False
    for label in labels:
        if label.kind == "tag":
            tags[label.text] = None
        elif label.kind == "untag":
            tags.pop(label.text, None)
        elif label.kind == "note":
            notes.append(Note(text=label.text, at_s=label.at_s, by=label.by))
        elif label.kind == "group":
            group = label.text
        else:
            archived = label.kind == "archive"
    return Labels(tags=tuple(tags), notes=tuple(notes), group=group, archived=archived)
