"""The documentation points at what exists, and speaks of commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mothtrap.cli import main
from mothtrap.core.config import Config

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#:]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"(?:^|`|\$ )mothtrap ([a-z]+)", re.MULTILINE)


def dead_links(page: Path) -> list[str]:
    """Relative links of a page that lead to no file."""
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
