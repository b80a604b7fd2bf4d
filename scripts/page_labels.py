"""Words and styles of the page, as they were when the pictures of the documentation were made."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "src" / "mothtrap" / "web" / "static"
KEPT = ROOT / "docs" / "pictures" / "page.json"
TEXT = re.compile(r">\s*([A-Z][^<>`${}]*[a-z][^<>`${}]*?)\s*(?:<|\$\{)")
"""A text of a template that a reader sees: it begins with a capital letter after a tag."""


def look() -> dict[str, object]:
    """Return what decides the look of the page: its words by file, and a digest of its styles."""
    words = {}
    for path in sorted(STATIC.rglob("*.js")):
        if "vendor" not in path.parts:
            found = TEXT.findall(path.read_text(encoding="utf-8"))
            if found:
                words[path.relative_to(STATIC).as_posix()] = [
                    " ".join(each.split()) for each in found
                ]
    styles = b"".join(
        path.read_bytes() for path in sorted(STATIC.rglob("*.css")) if "vendor" not in path.parts
    )
    return {"words": words, "styles": hashlib.sha256(styles).hexdigest()}
