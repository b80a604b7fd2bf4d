"""The skill is printed, and written to the folder in which agents look for skills."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from mothtrap.cli import main


def test_the_skill_is_printed_and_names_commands_that_exist() -> None:
    text = CliRunner().invoke(main, ["skill"]).output
    assert text.startswith("---\nname: debug-training\ndescription: ")
    listed = CliRunner().invoke(main, ["--help"]).output
    for name in set(re.findall(r"`mothtrap (?:-v )?(\w+)", text)):
        assert f"\n  {name} " in listed, name


def test_the_skill_is_written_once(tmp_path: Path) -> None:
    args = ["skill", "--write", str(tmp_path)]
    assert CliRunner().invoke(main, args).exit_code == 0
    path = tmp_path / "debug-training" / "SKILL.md"
    assert path.read_text(encoding="utf-8") == CliRunner().invoke(main, ["skill"]).output
    again = CliRunner().invoke(main, args)
    assert again.exit_code == 2
    assert "already exists" in again.stderr
