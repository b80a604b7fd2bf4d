"""A random secret of the user, kept in a file that only this user can read."""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

SECRET_BYTES = 32
WRITING_S, WRITING_TRIES = 0.5, 10
"""Time for another process to write the file that it has created; chosen by hand."""
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_unwritten: dict[Path, str] = {}


def user_secret(path: Path) -> str:
    """Return the secret in a file, which the first call creates.

    Only this user can read the file; a file that others can read or write is replaced. If it cannot
    be written, the secret lasts as long as this process.

    Args:
        path: path of the file; its folder is created.
    """
    known = _read(path)
    if known is not None:
        return known
    made = secrets.token_urlsafe(SECRET_BYTES)
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(draft, made)
        return _published(draft, path) or made
    except OSError:
        return _unwritten.setdefault(path, made)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _read(path: Path) -> str | None:
    with suppress(OSError):
        status = path.stat(follow_symlinks=False)
        if status.st_uid == os.getuid() and status.st_mode & 0o177 == 0:
            known = path.read_text(encoding="ascii", errors="replace")
            return known if _SECRET.fullmatch(known) else None
    return None


def _write(path: Path, secret: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(secret)


def _published(draft: Path, path: Path) -> str | None:
    """Rename the draft; if another process was faster, return its secret."""
    try:
        os.link(draft, path)
    except FileExistsError:
        if (faster := _read(path)) is not None:
            return faster
        os.replace(draft, path)
    except OSError:  # a file system without hard links
        return _published_without_link(draft, path)
    return None


def _published_without_link(draft: Path, path: Path) -> str | None:
    """Create the file itself, like `_published`; another process may be about to write it."""
    made = draft.read_text(encoding="ascii")
    try:
        _write(path, made)
    except FileExistsError:
        for _ in range(WRITING_TRIES):
            if (faster := _read(path)) is not None:
                return faster
            time.sleep(WRITING_S / WRITING_TRIES)
        os.replace(draft, path)
    return None
