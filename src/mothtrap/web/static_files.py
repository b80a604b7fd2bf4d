"""The files of the page, read once from the package: a request can name no other file."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import NamedTuple

from mothtrap.web.linking import linked

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"
ENTRY = "app.js"
"""The page's own modules, as one file."""
LATER = "views/deep.js"
"""The views that most visits do not open, with the modules that only they import, as a second
file."""
VENDORED = "vendor/"
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


class StaticFile(NamedTuple):
    """A file of the page."""

    data: bytes
    kind: str
    tag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files of the page by path, with its modules bundled into two files."""
    found = _read()
    own = [name for name in found if name.endswith(".js") and not name.startswith(VENDORED)]
    page = linked(ENTRY, {name: found.pop(name).decode() for name in own}, LATER)
    found |= {name: text.encode() for name, text in page.items()}
    return {name: _file(name, data) for name, data in found.items()}


def _file(name: str, data: bytes) -> StaticFile:
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    return StaticFile(data, TYPES[PurePosixPath(name).suffix], tag)


def _read() -> dict[str, bytes]:
    root = files("mothtrap.web") / "static"
    found: dict[str, bytes] = {}
    waiting = [(root, "")]
    while waiting:
        folder, path = waiting.pop()
        for entry in folder.iterdir():
            name = f"{path}{entry.name}"
            if entry.is_dir():
                waiting.append((entry, f"{name}/"))
            elif PurePosixPath(name).suffix in TYPES:
                found[name] = entry.read_bytes()
    return found


def import_map_hash() -> str:
    """Return `sha256-...` of the import map, the only inline script of the page."""
    found = _IMPORT_MAP.search(static_files()[INDEX].data)
    if found is None:
        raise ValueError(f"{INDEX} has no import map")
    return "sha256-" + base64.b64encode(hashlib.sha256(found.group(1)).digest()).decode()
