"""The token of the page, kept for the user so that an open page survives a restart."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from mothtrap.store.remote import cache_folder

TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def token_for(place: str) -> str:
    """Return the token of a place: the same for as long as its file lies in the user's cache.

    The file is readable by this user only; one that others could read or write is replaced. Where
    the cache cannot be written the token holds for one start.

    Args:
        place: what is served.
    """
    folder = cache_folder() / "ui"
    path = folder / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.token"
    with suppress(OSError):
        status = path.stat(follow_symlinks=False)
        if status.st_uid == os.getuid() and status.st_mode & 0o177 == 0:
            known = path.read_text(encoding="ascii", errors="replace")
            if _TOKEN.fullmatch(known):
                return known
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, token)
    return token


def _write(path: Path, token: str) -> None:
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(token)
