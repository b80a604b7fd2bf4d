from __future__ import annotations

import io
from pathlib import Path

import pytest

from mothtrap.store import progress as module
from mothtrap.store.progress import counting, progress, size_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def look(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", found)
    return found


def test_a_long_reading_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = look(monkeypatch)
    with progress("reading", lambda: module.LONG_BYTES) as told:
        told(module.LONG_BYTES // 4)
    assert "reading" in terminal.getvalue()
    assert " 25%" in terminal.getvalue()


def test_parts_are_counted_where_bytes_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = look(monkeypatch)
    with progress("writing", lambda: module.LONG_BYTES, parts=10) as told:
        told(3)
    assert " 30%" in terminal.getvalue()


def test_a_short_reading_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = look(monkeypatch)
    with progress("reading", lambda: module.LONG_BYTES - 1) as told:
        told(1)
    assert terminal.getvalue() == ""


def test_where_no_one_looks_not_even_the_size_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (io.StringIO(), None):
        monkeypatch.setattr("sys.stderr", stream)
        with progress("reading", lambda: pytest.fail("the size was asked")) as told:
            told(1)


def test_of_two_readings_one_shows_a_bar_and_the_next_has_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = look(monkeypatch)
    with progress("outer", lambda: module.LONG_BYTES):
        with progress("inner", lambda: module.LONG_BYTES) as told:
            told(1)
        assert "inner" not in terminal.getvalue()
    with progress("later", lambda: module.LONG_BYTES):
        pass
    assert "later" in terminal.getvalue()


def test_the_size_is_that_of_the_segments_of_a_kind(tmp_path: Path) -> None:
    for seq in range(3):
        (tmp_path / f"stats-{seq:08d}.arrow").write_bytes(bytes(100))
    (tmp_path / "events-00000000.arrow").write_bytes(bytes(10_000))
    assert size_of(tmp_path, "stats") == 300


def test_a_work_is_counted_where_it_is_long_and_someone_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = look(monkeypatch)
    with counting("judging", 9, long_parts=10) as told:
        told(3)
    assert terminal.getvalue() == ""
    with counting("judging", 10, long_parts=10) as told:
        told(3)
    assert "judging" in terminal.getvalue()
    assert " 30%" in terminal.getvalue()
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with counting("judging", 10, long_parts=10) as told:
        told(3)
    assert pipe.getvalue() == ""
