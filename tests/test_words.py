"""Words of the project: idiomatic, and the field's own terms."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.syntax_trees import nodes_with, parsed

ROOT = Path(__file__).parents[1]
READ = ("src", "docs", "bench", "scripts", "tests", "README.md", "CONTRIBUTING.md")
PHRASES = (
    *("how-manieth", "as ever", "to the last bit", "done again", "own cost", "somebody", "nobody"),
    *("mend that first", "beside it", "could not judge", "means nothing to", "puts out"),
)
CODE = ("src", "tests", "bench", "scripts", "docs")
NOT_OURS = {"vendor", "faultbench", "treebench"}
"""Folders of third-party code, and of faulty programs written the way people write them."""
SUFFIXES = (".py", ".pyi", ".c", ".h", ".js", ".html", ".css", ".md")
QUESTIONS = ("What", "Which", "Whether", "How", "Knows", "Tells")
REPLACED = {
    *("illness", "illnesses", "sick", "nobody", "somebody", "wish", "wishes", "dear", "purse"),
    *("straight", "passage", "resting", "woke", "roster", "outbox", "retelling", "casebook"),
    *("hindrance", "hindrances", "departure", "deaths"),
    *("lookfacts", "datalook", "outputlook", "routerlook", "unitlook"),
}
"""Words that were once terms in names of code and files, and now have better replacements.

Ordinary English words that were also such terms are allowed: given, held, known, part, places,
lanes, waiting, telling, asking, narrowing, rest.
"""
CLASSES = {"Wish", "Taken", "Taking", "Judge"}
"""Classes that were renamed; within longer names these words are allowed."""
AS_A_WHOLE = {"Watch", "sick", "SICK", "_passage", "Passage"}
"""Names that stay: those that users write (`mothtrap.Watch`, `RuleTests.sick`), that of a compiled
module, which editable installations would lack until they are built again, and the argument `sick`
of the programs of JAX.
"""
_ASKED = re.compile(rf"[\"'][\s\\.,:;]*({'|'.join(QUESTIONS)})\b")
_ANY = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)


def texts(place: Path) -> Iterator[Path]:
    """Return files that a person wrote, in a folder or the path itself."""
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    for path in found:
        if path.suffix in SUFFIXES and not NOT_OURS & {*path.parts} and path != Path(__file__):
            yield path


def phrases_in(text: str) -> list[str]:
    """Return the phrases in a text; a line break, also in a comment, may separate their words."""
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


def strings(tree: ast.Module) -> Iterator[str]:
    """Return docstrings of a module, its classes, functions and attributes."""
    for node in nodes_with(tree, "body"):
        for statement in node.body if isinstance(node.body, list) else ():
            match statement:
                case ast.Expr(ast.Constant(str(docstring))):
                    yield docstring


def may_ask(path: Path) -> bool:
    """Return whether any string of a file may begin like a question."""
    return bool(_ASKED.search(path.read_text("utf-8")))


def questions_in(tree: ast.Module) -> list[str]:
    """Return docstrings that begin like a question, instead of a noun or an imperative."""
    first = ((text.split() or [""])[0].strip(".,:;") for text in strings(tree))
    return [word for word in first if word in QUESTIONS]


@pytest.mark.parametrize("folder", CODE)
def test_no_docstring_begins_like_a_question(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*.py") if not NOT_OURS & {*path.parts}]
    assert files
    asked = {
        str(path.relative_to(ROOT)): questions_in(parsed(path)) for path in files if may_ask(path)
    }
    assert {name: found for name, found in asked.items() if found} == {}


def test_questions_are_seen_in_docstrings_of_every_kind() -> None:
    text = '"""How it is."""\nX = 1\n"""What X is."""\nclass C:\n    """\n    Which.\n    """\n'
    assert sorted(questions_in(ast.parse(text))) == ["How", "What", "Which"]
    text = 'def f():\n    """However, return it."""\n    x = "What"\n'
    assert questions_in(ast.parse(text)) == []


def names_in(text: str) -> Iterator[str]:
    """Return the names in a program; texts and comments are ignored.

    Nothing is returned for a program without a replaced word anywhere: most programs.
    """
    if not _may_hold_replaced(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.string


def _may_hold_replaced(text: str) -> bool:
    lower = text.lower()
    return any(word in lower for word in REPLACED) or any(c in text for c in {*CLASSES, "Watch"})


def words_of(name: str) -> list[str]:
    """Return the words of a name in any style, in lower case."""
    return [word.lower() for word in re.split(r"[_\W]+|(?<=[a-z])(?=[A-Z])", name) if word]


def is_replaced(name: str) -> bool:
    """Return whether a name holds a word that has a better one."""
    if name in AS_A_WHOLE:
        return False
    whole = name.endswith("Watch") or name in CLASSES
    return whole or any(word in REPLACED for word in words_of(name))


@pytest.mark.parametrize("folder", CODE)
def test_no_name_holds_a_word_that_was_replaced(folder: str) -> None:
    found: dict[str, set[str]] = {}
    for path in (ROOT / folder).rglob("*.py"):
        if not NOT_OURS & {*path.parts}:
            names = {*names_in(path.read_text("utf-8")), *path.relative_to(ROOT).parts[:-1]}
            if old := set(filter(is_replaced, {*names, path.stem})):
                found[str(path.relative_to(ROOT))] = old
    assert found == {}


def test_replaced_words_are_seen_in_names_of_every_style() -> None:
    text = "class LossWatch:\n    def go_straight(self): return sickRuns  # a passage\n"
    assert [*filter(is_replaced, names_in(text))] == ["LossWatch", "go_straight", "sickRuns"]
    assert not any(map(is_replaced, ("Watch", "watch", "sick", "given", "straightforward")))
