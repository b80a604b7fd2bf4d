"""The secret of a user is made once, and no other user can read it."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mothtrap.store import user_secret as secret_file
from mothtrap.store.user_secret import user_secret


def test_it_stays_the_same_and_is_readable_by_the_user_only(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "x.secret"
    made = user_secret(path)
    assert len(made) == 43
    assert user_secret(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert user_secret(tmp_path / "y.secret") != made


def test_one_that_others_could_read_or_that_is_damaged_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.secret"
    made = user_secret(path)
    path.chmod(0o644)
    second = user_secret(path)
    assert second != made
    path.write_text("short")
    assert user_secret(path) not in (made, second, "short")


def test_processes_that_begin_together_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: user_secret(tmp_path / "x.secret"), range(64)))
    assert len(set(made)) == 1


def test_without_hard_links_it_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: user_secret(tmp_path / "x.secret"), range(64)))
    assert len(set(made)) == 1
    monkeypatch.setattr(secret_file, "_unwritten", {})  # as in another process
    assert user_secret(tmp_path / "x.secret") == made[0]
    (tmp_path / "x.secret").write_text("short")
    assert user_secret(tmp_path / "x.secret") not in (made[0], "short")
    assert [path.name for path in tmp_path.iterdir()] == ["x.secret"]


def test_where_it_cannot_be_written_it_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    path = tmp_path / "file" / "x.secret"
    assert user_secret(path) == user_secret(path)
