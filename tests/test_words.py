"""What users read is idiomatic: page, reports, commands, actions and their docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READ_BY_USERS = (
    *("src/mothtrap/web", "src/mothtrap/report", "src/mothtrap/cli", "src/mothtrap/actions"),
    *("docs/ui.md", "docs/actions.md", "docs/clusters.md", "docs/conditional-breakpoints.md"),
)
PHRASES = (
    *("how-manieth", "as ever", "to the last bit", "done again", "own cost", "somebody", "nobody"),
    *("mend that first", "beside it", "could not judge", "means nothing to", "puts out"),
)
_ANY = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)


def texts(place: Path) -> Iterator[Path]:
    """Files that a person wrote, in a place or the place itself."""
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    for path in found:
        if path.suffix in (".py", ".js", ".md", ".html", ".css") and "vendor" not in path.parts:
            yield path


def phrases_in(text: str) -> list[str]:
    """The phrases in a text; a line break may stand between their words."""
    return [found[1].lower() for found in _ANY.finditer(re.sub(r"\s+", " ", text))]


@pytest.mark.parametrize("place", READ_BY_USERS)
def test_no_phrase_that_a_reader_stumbles_over(place: str) -> None:
    files = list(texts(ROOT / place))
    assert files
    said = {str(path.relative_to(ROOT)): phrases_in(path.read_text("utf-8")) for path in files}
    assert {name: found for name, found in said.items() if found} == {}


def test_a_phrase_is_seen_over_a_line_break_and_only_as_whole_words() -> None:
    assert phrases_in("It is done\n   again, as Ever. Whatever, inputs output.") == [
        "done again",
        "as ever",
    ]
