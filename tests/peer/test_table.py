"""The page for users of SageMaker Debugger is correct."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.peer.their_names import THEIRS

import mothtrap
from mothtrap.core.actions import Reaction
from mothtrap.core.config import Config
from mothtrap.core.runs import RunInfo
from mothtrap.reader.series.steps import StepStatus, Timeline
from mothtrap.reader.tensors.captured_tensors import Tensor

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "from-sagemaker-debugger.md").read_text(encoding="utf-8")
QUOTED = re.compile(r"`([^`\n]+)`")
WORD = re.compile(r"[A-Za-z]\w*")
CODE = re.compile(r"\b[A-Z]{3}\d{3}\b")
TEST = re.compile(r"[\w/]+\.py::\w+")
KNOWN: dict[str, Any] = {
    "run": mothtrap.Run,
    "dbg": mothtrap.Watch,
    "tensor": Tensor,
    "Collection": mothtrap.Collection,
    "Schedule": mothtrap.Schedule,
}
RETURNS: dict[Any, Any] = {
    mothtrap.Run.timeline: Timeline,
    mothtrap.Run.info: RunInfo,
    mothtrap.Run.status: StepStatus,
    mothtrap.Run.tensor: Tensor,
}
ROWS = 26
SETTINGS = {*Config.__struct_fields__, *Reaction.__struct_fields__, "notify"}


def offences(page: str) -> list[str]:
    """Return the quoted names of mothtrap on a page that do not exist."""
    found = []
    for text in QUOTED.findall(page):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            try:
                if isinstance(node, ast.Attribute):
                    _resolved(node)
                elif isinstance(node, ast.Call):
                    _check_call(node)
            except (AttributeError, ImportError, TypeError) as err:
                found.append(f"{text}: {err}")
        if re.fullmatch(r"\w+ = .+", text) and text.split()[0] not in SETTINGS:
            found.append(f"{text}: no such setting")
    return found


def _resolved(node: ast.expr) -> Any:
    """Return the object to which an expression refers; None if it is not part of mothtrap."""
    if isinstance(node, ast.Call):
        return RETURNS.get(_resolved(node.func))
    if isinstance(node, ast.Name):
        return mothtrap if node.id == "mothtrap" else KNOWN.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _resolved(node.value)
    if owner is None or (owner is mothtrap and node.attr == "toml"):  # a file
        return None
    if isinstance(owner, ModuleType) and not hasattr(owner, node.attr):
        return importlib.import_module(f"{owner.__name__}.{node.attr}")
    if isinstance(owner, type) and f"self.{node.attr} = " in inspect.getsource(owner):
        return None
    value = getattr(owner, node.attr)
    return RETURNS.get(value) if isinstance(value, property) else value


def _check_call(node: ast.Call) -> None:
    function: Callable[..., Any] | None = _resolved(node.func)
    if function is None or any(isinstance(a, ast.Constant) and a.value is ... for a in node.args):
        return
    words = {word.arg: None for word in node.keywords if word.arg}
    bound = [None] * (len(node.args) + ("self" in inspect.signature(function).parameters))
    bound = (
        []
        if any(isinstance(arg, ast.Constant) and arg.value is ... for arg in node.args)
        else bound
    )
    inspect.signature(function).bind_partial(*bound, **words)


def test_what_the_page_names_exists() -> None:
    assert offences(PAGE) == []
    assert len(QUOTED.findall(PAGE)) > 200


@pytest.mark.parametrize(
    "wrong",
    [
        *("run.waits_for(1)", "mothtrap.wach", "mothtrap.core.errors.NoError", "dbg.lock('a', 1)"),
        *("Collection(row=True)", "run.status(1).whole", "run.tensors(stepp=1)", "wokers = 'all'"),
        *("run.timeline.step_off('eval', 3)", "run.wait_for(1, 2, 3, 4)"),
    ],
)
def test_a_name_that_does_not_exist_is_seen(wrong: str) -> None:
    assert len(offences(f"| x | `{wrong}` |")) >= 1


def untold(page: str) -> list[str]:
    """Return the quoted names of smdebug that are in no first cell of a row with tests."""
    rows = re.findall(r"^\|(.*?[^\\])\|", page.partition("## What its tests")[0], re.MULTILINE)
    told = {word for row in rows for text in QUOTED.findall(row) for word in WORD.findall(text)}
    return [name for name in THEIRS if name not in told]


def test_every_name_of_theirs_has_a_row() -> None:
    assert untold(PAGE) == []


def test_a_name_without_a_row_is_seen() -> None:
    assert untold(PAGE.replace("`save_scalar(", "`(")) == ["save_scalar"]


def unknown_codes(page: str) -> set[str]:
    """Return the rule codes that a page names and that no rule has."""
    rules = (TESTS.parent / "docs" / "rules.md").read_text(encoding="utf-8")
    return {code for code in CODE.findall(page) if f"[{code}]" not in rules}


def test_rules_that_are_named_exist() -> None:
    assert unknown_codes(PAGE) == set()
    assert unknown_codes("see ACT201 and NUM999") == {"NUM999"}


def missing(page: str) -> list[str]:
    """Return the tests that a page names and that do not exist."""
    return [
        name
        for name in TEST.findall(page)
        if f"def {name.partition('::')[2]}(" not in _source(TESTS / name.partition("::")[0])
    ]


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def test_every_row_has_tests_that_exist() -> None:
    rows = dict(re.findall(r"^\| (\d+) \|(.+)$", PAGE, re.MULTILINE))
    assert list(rows) == [str(number) for number in range(1, ROWS + 1)]
    without = {number for number, row in rows.items() if not TEST.search(row)}
    assert without == set()
    assert {number for number, row in rows.items() if "not yet" in row} == {"25"}
    faults = PAGE.partition("## Its faults")[2].splitlines()[4:]
    assert [row for row in faults if not TEST.search(row)] == []
    assert missing(PAGE) == []


def test_every_row_of_boosted_trees_has_a_test_that_exists() -> None:
    page = (TESTS.parent / "docs" / "trees.md").read_text(encoding="utf-8")
    folder, found = "", []
    for line in page.splitlines():
        if line.startswith("| SageMaker Debugger |"):
            folder = re.search(r"test in `tests/(.+?)`", line).group(1)  # type: ignore[union-attr]
        elif folder and line.startswith("| "):
            found.append(f"{folder} {line.rsplit('|', 2)[1].strip(' `')}")
        elif not line.startswith("|"):
            folder = ""
    assert len(found) == 9 + 8
    tests, latest = [], ""
    for row in found:
        place, _, name = row.partition(" ")
        latest = (
            latest
            if name == "the same"
            else f"{place}/{name}"
            if ".py" in name
            else f"{place}::{name}"
        )
        tests.append(latest)
    assert missing("\n".join(tests)) == []
    assert len(TEST.findall("\n".join(tests))) == len(tests)


def test_a_test_that_is_gone_is_seen() -> None:
    assert missing("`peer/test_table.py::test_that_never_was`") != []
    assert missing("`peer/test_gone.py::test_a`") != []


def test_every_peer_test_stands_in_the_table() -> None:
    named = {name.partition("::")[2] for name in TEST.findall(PAGE)}
    files = [path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    found = {name for path in files for name in re.findall(r"^def (test_\w+)", _source(path), re.M)}
    assert found - named == set()
