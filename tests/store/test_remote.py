"""A user's cache is where the platform has it, and in a fallback for users without a home."""

from __future__ import annotations

import os.path
import tempfile
from pathlib import Path

import pytest

from mothtrap.store.remote import cache_folder


def test_a_user_of_a_container_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user without an entry
    assert Path(tempfile.gettempdir()) in cache_folder({}).parents
