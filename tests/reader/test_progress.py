from __future__ import annotations

import io
from pathlib import Path

import pytest

from mothtrap.reader import progress
from mothtrap.reader.progress import shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seq in range(3):
        (tmp_path / f"stats-{seq:08d}.arrow").write_bytes(bytes(100))
    (tmp_path / "events-00000000.arrow").write_bytes(bytes(10_000))
    return tmp_path


def test_a_long_reading_shows_a_bar_on_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "LONG_BYTES", 300)
    assert list(shown([1, 2, 3], folder, "stats")) == [1, 2, 3]
    assert "reading stats of" in terminal.getvalue()


@pytest.mark.parametrize(("long_bytes", "stream"), [(301, Terminal()), (1, io.StringIO())])
def test_a_short_reading_and_one_that_nobody_sees_show_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, long_bytes: int, stream: io.StringIO
) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "LONG_BYTES", long_bytes)
    assert list(shown([1, 2, 3], folder, "stats")) == [1, 2, 3]
    assert stream.getvalue() == ""
