"""`mothtrap help` is `mothtrap --help`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from mothtrap.cli import main


@pytest.mark.parametrize(
    ("words", "same"), [(["help"], ["--help"]), (["help", "show"], ["show", "--help"])]
)
def test_help_is_a_command_too(words: list[str], same: list[str]) -> None:
    asked, option = CliRunner().invoke(main, words), CliRunner().invoke(main, same)
    assert asked.exit_code == 0, asked.output
    assert asked.output == option.output


def test_an_unknown_command_is_named_with_the_nearest() -> None:
    asked = CliRunner().invoke(main, ["help", "shwo"])
    assert asked.exit_code == 2
    assert "show" in asked.output
