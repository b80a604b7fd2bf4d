from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.store import pages
from mothtrap.store.pages import read_on


@pytest.mark.parametrize("large", [1, 10**9], ids=["huge pages", "ordinary"])
def test_bytes_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(pages, "LARGE_BYTES", large)
    path = tmp_path / "x"
    path.write_bytes(bytes(range(250)) * 40_000)
    with path.open("rb", buffering=0) as file:
        file.seek(7)
        first = read_on(file, 5_000_000)
        rest = read_on(file, 10_000_000)  # more than exists
    assert first[:] + rest[:] == path.read_bytes()[7:]
    assert (len(first), first.find(b"\xf9\x00"), first[:2]) == (5_000_000, 242, b"\x07\x08")


def test_whole_pages_are_ordinary_bytes(tmp_path: Path) -> None:
    """A search in memory that fills its pages once ended the process."""
    path = tmp_path / "x"
    path.write_bytes(bytes(2 * pages.LARGE_BYTES))
    with path.open("rb", buffering=0) as file:
        assert isinstance(read_on(file, pages.LARGE_BYTES), bytes)
