"""Behavior that only folders have: files vanish between two reads."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mothtrap.store.backends.local import LocalStore


def test_a_file_that_is_removed_while_it_is_listed_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    for key in ("1/alive.json", "1/run.json"):
        store.put_if_absent(key, b"x")
    look = Path.stat

    def late(self: Path, **options: bool) -> os.stat_result:
        if self.name == "alive.json":
            raise FileNotFoundError(errno.ENOENT, "gone")
        return look(self, **options)

    monkeypatch.setattr(Path, "stat", late)
    assert [info.key for info in store.children("1").objects] == ["1/run.json"]
    assert [info.key for info in store.list("1")] == ["1/run.json"]
