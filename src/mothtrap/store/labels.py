"""Labels that people put on runs, under `RUN/labels/`."""

from __future__ import annotations

import time
from pathlib import Path

from mothtrap.core.errors import ConfigError
from mothtrap.core.labels import MAX_TAG, MAX_TEXT, Label, LabelKind, Labels, joined
from mothtrap.core.texts import storable
from mothtrap.store.remarks import put_remark, read_remarks, user_name

FOLDER = "labels"


def put_label(run: Path, kind: LabelKind, text: str = "") -> Label:
    """Label a run; raises the same errors as `put_remark`.

    Args:
        run: folder of the run.
        kind: kind of the label.
        text: the tag, note or group.

    Raises:
        ConfigError: the text is too long, or is missing.
    """
    text = storable(text.strip())
    most = MAX_TEXT if kind == "note" else MAX_TAG
    if len(text) > most:
        raise ConfigError(f"a {kind} may have {most:,} characters, not {len(text):,}; shorten it")
    if not text and kind in ("tag", "untag", "note"):
        raise ConfigError(f"the {kind} is empty; pass some text")
    label = Label(kind=kind, text=text, at_s=time.time(), by=user_name())
    put_remark(run, FOLDER, label)
    return label


def read_labels(run: Path) -> Labels:
    """Return the tags, notes and group of a run."""
    return joined(read_remarks(run, FOLDER, Label))
