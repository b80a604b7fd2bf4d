"""The documentation links only to existing pages, and mentions only existing commands."""

from __future__ import annotations

import doctest
import html
import importlib
import importlib.util
import json
import re
from pathlib import Path

import click
import pytest

import mothtrap
from mothtrap.cli import main
from mothtrap.core import registry
from mothtrap.core.config import Config

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/llms.txt")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#:]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"(?:^|`|\$ )mothtrap ([a-z]+)", re.MULTILINE)


def dead_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file."""
    targets = LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    return [target for target in targets if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_link_check_sees_a_dead_link(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md) [b](gone.md) [c](https://example.org/x) [d](page.md#top)")
    assert dead_links(page) == ["gone.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_named_exist(page: Path) -> None:
    named = set(COMMAND.findall(page.read_text(encoding="utf-8")))
    assert named <= set(main.list_commands(click.Context(main)))


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    missing = [
        name
        for name in Config.__struct_fields__
        if not re.search(rf"(^|\.){name}\b", text, re.MULTILINE)
    ]
    assert missing == []


def actions_without_a_row(page: str) -> set[str]:
    """Return the actions that no row of the page's tables names."""
    return set(registry.names("mothtrap.actions")) - set(re.findall(r"^\| `(\w+)` \|", page, re.M))


def test_every_action_is_documented() -> None:
    page = (ROOT / "docs" / "actions.md").read_text(encoding="utf-8")
    assert actions_without_a_row(page) == set()


def test_an_action_without_a_row_is_noticed() -> None:
    page = (ROOT / "docs" / "actions.md").read_text(encoding="utf-8")
    assert actions_without_a_row(page.replace("| `tag` |", "| tag |")) == {"tag"}


def options_that_no_page_names(folder: Path) -> list[str]:
    """Return options that neither the command's section of `cli.md` nor a page about it names."""
    overview = (folder / "cli.md").read_text(encoding="utf-8")
    common = overview.partition("\n## ")[0]
    found = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", overview, re.MULTILINE | re.DOTALL)
    sections = dict(found)
    pages = [page.read_text(encoding="utf-8") for page in sorted(folder.glob("*.md"))]
    context = click.Context(main)
    missing = []
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        told = sections.get(name) or "".join(p for p in pages if f"mothtrap {name}" in p)
        for option in command.params:
            names = "|".join(re.escape(word) for word in option.opts)
            if isinstance(option, click.Option) and not re.search(
                rf"(?<![\w-])({names})(?![\w-])", common + told
            ):
                missing.append(f"{name} {option.opts[0]}")
    return missing


def test_every_option_is_documented() -> None:
    assert options_that_no_page_names(ROOT / "docs") == []


def test_the_check_of_options_sees_one_that_is_missing(tmp_path: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        changed = text.replace("--snapshot-at STEP` | keep", "--snapshots STEP` | keep")
        (tmp_path / page.name).write_text(changed, encoding="utf-8")
    assert options_that_no_page_names(tmp_path) == ["run --snapshot-at"]


def test_the_picture_of_the_terminal_shows_lines_of_the_demo() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = readme.index("![A terminal")
    assert picture < readme.index("\n## ")
    assert "(docs/pictures/terminal.svg)" in readme
    svg = (ROOT / "docs" / "pictures" / "terminal.svg").read_text(encoding="utf-8")
    shown = html.unescape(re.sub(r"<[^>]*>", "\n", svg)).replace("\xa0", " ")
    program = (ROOT / "src" / "mothtrap" / "examples" / "digits.py").read_text(encoding="utf-8")
    [line] = set(re.findall(r"--> digits\.py:(\d+)", shown))
    assert program.splitlines()[int(line) - 1].strip() in shown
    [called] = set(re.findall(r"digits\.py:(\d+)", shown)) - {line}
    assert "softmax" in program.splitlines()[int(called) - 1].lower()
    for accuracy in re.findall(r"([\d.]+) % of the|it gets ([\d.]+) %", readme)[:2]:
        assert f"{''.join(accuracy)}%" in shown
    assert "url(" not in re.sub(r"url\(#", "", svg)


def test_no_picture_is_older_than_the_page() -> None:
    """If this fails, make the pictures again: `python scripts/pictures.py`."""
    place = ROOT / "scripts" / "page_labels.py"
    spec = importlib.util.spec_from_file_location("page_labels", place)
    assert spec is not None
    assert spec.loader is not None
    labels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(labels)
    assert json.loads(labels.KEPT.read_text(encoding="utf-8")) == labels.look()


def test_costs_in_the_readme_are_those_of_the_benchmarks() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## What it costs")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ")
        for line in section.splitlines()
        if "[" in line and line[0] == "|"
    ]
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    ours = [line for line in measured.splitlines() if "| default | mothtrap |" in line]
    assert len(rows) == 3
    for _, plain, watched, ratio, memory in rows:
        cells = f"| {plain.split()[0]} | {watched.split()[0]} | {ratio} |"
        assert any(cells in line and line.endswith(f"| {memory.split()[0]} |") for line in ours)


def names_of_the_api(page: str) -> list[str]:
    """Return the objects that a page of the API documents one by one."""
    return re.findall(r"^\.\. auto(?:class|function|exception):: (\S+)$", page, re.MULTILINE)


def test_documented_names_are_imported_from_public_packages() -> None:
    names = names_of_the_api((ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    for path in names:
        package, _, name = path.rpartition(".")
        assert package in ("mothtrap", "mothtrap.exports", "mothtrap.testing"), path
        assert name in importlib.import_module(package).__all__, path
    errors = {
        "MothtrapError",
        "NotApplicable",
        "NotEnoughData",
    }  # `mothtrap.core.errors`, as a whole
    assert set(mothtrap.__all__) - {path.rpartition(".")[2] for path in names} == errors


@pytest.mark.parametrize(
    "module",
    [
        "mothtrap.core.texts",
        "mothtrap.report.phases",
        "mothtrap.report.record",
        "mothtrap.report.style",
    ],
)
def test_examples_in_docstrings_are_true(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried
    assert not failed


def test_every_example_in_a_docstring_is_tried() -> None:
    source = Path(mothtrap.__file__).parent
    files = [path for path in source.rglob("*.py") if ">>> " in path.read_text("utf-8")]
    [tried] = test_examples_in_docstrings_are_true.pytestmark
    named = {f"mothtrap.{'.'.join(f.relative_to(source).with_suffix('').parts)}" for f in files}
    assert named == set(tried.args[1])
