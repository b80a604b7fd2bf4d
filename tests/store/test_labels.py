"""Tags, notes and groups of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.core.errors import ConfigError
from mothtrap.store.labels import FOLDER, put_label, read_labels


def test_the_latest_labels_count(tmp_path: Path) -> None:
    for kind, text in (
        ("tag", "a"),
        ("tag", "b"),
        ("tag", "a"),
        ("untag", "b"),
        ("note", "../../x\n<script>"),
        ("group", "first"),
        ("group", "second"),
        ("archive", ""),
        ("restore", ""),
    ):
        put_label(tmp_path, kind, text)  # type: ignore[arg-type]
    (tmp_path / FOLDER / "00000000000000000001-odd.json").write_text("{")
    labels = read_labels(tmp_path)
    assert (labels.tags, labels.group, labels.archived) == (("a",), "second", False)
    assert [note.text for note in labels.notes] == ["../../x\n<script>"]
    assert {path.suffix for path in (tmp_path / FOLDER).iterdir()} == {".json"}
    put_label(tmp_path, "group", "")
    assert read_labels(tmp_path).group == ""


def test_empty_and_endless_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the tag is empty"):
        put_label(tmp_path, "tag", " ")
    with pytest.raises(ConfigError, match="a note may have 4,000 characters"):
        put_label(tmp_path, "note", "x" * 5000)
