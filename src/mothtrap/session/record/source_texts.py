"""Source texts of the script and its modules, so that findings can show lines later."""

from __future__ import annotations

from pathlib import Path

from mothtrap.core.ledger import Ledger, SourceTexts
from mothtrap.core.masking import without_secrets
from mothtrap.store.source_digests import MAX_SOURCE_BYTES, digest_of

MOST_CHARACTERS = 128_000
"""Maximum number of characters of all files together; chosen by hand, to limit the size of a run.
"""


def read(ledger: Ledger) -> SourceTexts:
    """Return the texts of files with a digest in the ledger, smallest first.

    A file that has changed since, or does not fit into `MOST_CHARACTERS`, is omitted.
    """
    folder = Path(ledger.cwd)
    found: dict[str, str] = {}
    room = MOST_CHARACTERS
    for name in sorted(ledger.facts.get("sources", {}), key=lambda name: _size(folder / name)):
        path = folder / name
        if _size(path) > room:
            break
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if digest_of(path) == ledger.facts["sources"][name]:
            found[name] = without_secrets(text)
            room -= len(text)
    return SourceTexts(files=dict(sorted(found.items())))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return MAX_SOURCE_BYTES
