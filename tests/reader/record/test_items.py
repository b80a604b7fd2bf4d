"""Files of a record are read with care: names and links in a hostile run do no harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mothtrap.core.errors import DamagedDataError, UnknownNameError
from mothtrap.core.record_items import MAX_BYTES
from mothtrap.reader.record.items import Item, read_bytes, read_table


def item(file: str, kind: str = "text") -> Item:
    return Item(
        number=0,
        name="x",
        kind=kind,
        step=0,
        worker=0,
        attempt=1,
        size_bytes=0,
        digest="",
        about={},
        file=file,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "1" / "w0" / "record"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (folder / "000000.txt").write_text("text")
    (folder / "000001.txt").symlink_to(tmp_path / "secret")
    (folder / "000002.txt").mkdir()
    os.mkfifo(folder / "000003.txt")
    with (folder / "000004.txt").open("wb") as file:
        file.truncate(MAX_BYTES["text"] + 1)
    (folder / "000005.json").write_text("[1")
    return tmp_path / "run"


def test_a_file_is_read(run: Path) -> None:
    assert read_bytes(run, item("000000.txt")) == b"text"


@pytest.mark.parametrize(
    "file",
    [
        *("../../../../secret", "/etc/passwd", "000001.txt", "000002.txt", "000003.txt"),
        *("000004.txt", "000009.txt", "000000.txt\0", "000000.exe"),
    ],
)
def test_what_is_no_file_of_the_record_is_refused(run: Path, file: str) -> None:
    with pytest.raises(DamagedDataError):
        read_bytes(run, item(file))


def test_a_table_that_is_damaged_is_refused_and_a_digest_alone_is_no_file(run: Path) -> None:
    with pytest.raises(DamagedDataError, match="cannot be read"):
        read_table(run, item("000005.json", "table"))
    with pytest.raises(UnknownNameError, match="only the digest of"):
        read_bytes(run, item("", "artifact"))
