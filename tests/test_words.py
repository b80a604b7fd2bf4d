"""Words of the project: idiomatic, and the field's own terms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READ = ("src", "docs", "bench", "scripts", "tests", "README.md", "CONTRIBUTING.md")
PHRASES = (
    *("how-manieth", "as ever", "to the last bit", "done again", "own cost", "somebody", "nobody"),
    *("mend that first", "beside it", "could not judge", "means nothing to", "puts out"),
)
CODE = ("src", "tests", "bench", "scripts", "docs")
NOT_OURS = {"vendor", "faultbench", "treebench"}
"""Folders of foreign code, and of programs with faults, written as people write them."""
SUFFIXES = (".py", ".pyi", ".c", ".h", ".js", ".html", ".css", ".md")
QUESTIONS = ("What", "Which", "Whether", "How", "Knows", "Tells")
_ANY = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)


def texts(place: Path) -> Iterator[Path]:
    """Files that a person wrote, in a place or the place itself."""
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    for path in found:
        if path.suffix in SUFFIXES and not NOT_OURS & {*path.parts} and path != Path(__file__):
            yield path


def phrases_in(text: str) -> list[str]:
    """The phrases in a text; a line break, of a comment too, may stand between their words."""
    return [found[1].lower() for found in _ANY.finditer(re.sub(r"[\s#*]+", " ", text))]


@pytest.mark.parametrize("place", READ)
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
    assert phrases_in("    # to the\n    # last bit") == ["to the last bit"]


def strings(text: str) -> Iterator[str]:
    """Docstrings of a module, its classes, functions and attributes."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(ast.Constant(str(docstring))):
                    yield docstring


def questions_in(text: str) -> list[str]:
    """Docstrings that begin like a question, instead of a noun or an imperative."""
    first = ((text.split() or [""])[0].strip(".,:;") for text in strings(text))
    return [word for word in first if word in QUESTIONS]


@pytest.mark.parametrize("folder", CODE)
def test_no_docstring_begins_like_a_question(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*.py") if not NOT_OURS & {*path.parts}]
    assert files
    asked = {str(path.relative_to(ROOT)): questions_in(path.read_text("utf-8")) for path in files}
    assert {name: found for name, found in asked.items() if found} == {}


def test_questions_are_seen_in_docstrings_of_every_kind() -> None:
    text = '"""How it is."""\nX = 1\n"""What X is."""\nclass C:\n    """\n    Which.\n    """\n'
    assert questions_in(text) == ["How", "What", "Which"]
    assert questions_in('def f():\n    """However, return it."""\n    x = "What"\n') == []
