"""A fingerprint changes after every change of a file, whatever the file's own time is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mothtrap.store import run_fingerprint
from mothtrap.store.run_fingerprint import fingerprint


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "1" / "w0").mkdir(parents=True)
    (folder / "1" / "run.json").write_bytes(b"{}")
    (folder / "1" / "w0" / "events").write_bytes(b"events")
    return folder


def restore_time(run: Path) -> None:
    """Change a file without its size or time."""
    file = run / "1" / "w0" / "events"
    before = file.stat()
    file.write_bytes(b"EVENTS")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(run: Path) -> None:
    draft = run.parent / "draft"
    draft.write_bytes(b"{}")
    os.replace(draft, run / "1" / "run.json")


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda run: (run / "1" / "run.json").write_bytes(b"[]"),
    "grown": lambda run: (run / "1" / "w0" / "events").write_bytes(b"events and more"),
    "time restored": restore_time,
    "replaced": replace,
    "added": lambda run: (run / "2").write_bytes(b""),
    "removed": lambda run: (run / "1" / "run.json").unlink(),
    "renamed": lambda run: (run / "1" / "w0").rename(run / "1" / "w1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_makes_another_digest(run: Path, change: str) -> None:
    before = fingerprint(run)
    assert fingerprint(run) == before
    CHANGES[change](run)
    assert fingerprint(run).digest != before.digest


def test_the_target_of_a_link_counts_and_a_linked_folder_is_unknown(run: Path) -> None:
    target = run.parent / "elsewhere"
    target.write_bytes(b"1")
    (run / "link").symlink_to(target)
    before = fingerprint(run)
    assert before.digest
    target.write_bytes(b"12")
    assert fingerprint(run).digest != before.digest
    (run / "2").symlink_to(run / "1")
    assert fingerprint(run).digest == ""


def test_what_cannot_be_examined_is_unknown(tmp_path: Path) -> None:
    assert fingerprint(tmp_path / "absent").digest == ""
    assert not fingerprint(tmp_path / "absent").is_settled
    (tmp_path / "broken").symlink_to(tmp_path / "absent")
    assert fingerprint(tmp_path).digest == ""


def test_a_fresh_change_is_not_settled(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fingerprint(run)
    monkeypatch.setattr(run_fingerprint, "SETTLED_S", 3600.0)
    assert not found.is_settled
    assert found._replace(changed_s=found.changed_s - 3601).is_settled
