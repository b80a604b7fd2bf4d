"""The files of the page, read once from the package: a request can name no other file."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import NamedTuple

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


class StaticFile(NamedTuple):
    """A file of the page."""

    data: bytes
    kind: str
    tag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return every file of the page by its path below `static/`."""
    root = files("mothtrap.web") / "static"
    found: dict[str, StaticFile] = {}
    waiting = [(root, "")]
    while waiting:
        folder, path = waiting.pop()
        for entry in folder.iterdir():
            name = f"{path}{entry.name}"
            if entry.is_dir():
                waiting.append((entry, f"{name}/"))
            elif (kind := TYPES.get(PurePosixPath(name).suffix)) is not None:
                data = entry.read_bytes()
                found[name] = StaticFile(data, kind, f'"{hashlib.sha256(data).hexdigest()[:20]}"')
    return found


def import_map_hash() -> str:
    """Return `sha256-...` of the import map, the one script that stands in the page itself."""
    found = _IMPORT_MAP.search(static_files()[INDEX].data)
    if found is None:
        raise ValueError(f"{INDEX} has no import map")
    return "sha256-" + base64.b64encode(hashlib.sha256(found.group(1)).digest()).decode()
