"""A replaced file is always whole, and nothing else remains in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.store.replacing import replace


def test_a_file_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    replace(path, b"first")
    replace(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "facts.json"
    replace(path, b"first")

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        replace(path, b"second")
    assert path.read_bytes() == b"first"
