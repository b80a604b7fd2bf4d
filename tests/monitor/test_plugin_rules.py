"""Rules of other distributions: usable ones are in force, others are reported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.plugins import install

from mothtrap.cli import main
from mothtrap.core.config import Config
from mothtrap.monitor.catalogue import find_rule, left_out, load_rules, rule_classes

GOOD = '''
from dataclasses import dataclass
from typing import ClassVar
from mothtrap.core.findings import Finding
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window

@dataclass(frozen=True)
class SlowLoader(Rule):
    """The loader is slower than the step."""
    code: ClassVar[str] = "DAT901"
    limit: float = 2.0
    def check(self, window: Window) -> list[Finding]:
        return []
'''


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "theirs"]:
        del sys.modules[name]


def test_a_rule_of_another_distribution_is_in_force_and_takes_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"mothtrap.rules": {"slow_loader": GOOD}})
    assert find_rule("DAT901") is find_rule("slow_loader")
    [rule] = load_rules(Config(select=("DAT9",), rules={"DAT901": {"limit": 3}}))
    assert (rule.name(), rule.limit) == ("slow_loader", 3.0)  # type: ignore[attr-defined]
    assert left_out() == ()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("", "defines 0 rules"),
        (
            GOOD.replace("DAT901", "NUM001"),
            "the code NUM001 is already used by the rule nonfinite_loss",
        ),
        (GOOD.replace("limit: float = 2.0", "limit: float"), "required positional argument"),
        (GOOD.replace('    code: ClassVar[str] = "DAT901"\n', ""), "a `code`"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    before = rule_classes()
    install(tmp_path, monkeypatch, {"mothtrap.rules": {"slow_loader": source}})
    assert rule_classes() == before
    [fault] = left_out()
    assert "'slow_loader' of their-plugins 1.2" in str(fault)
    assert reason in str(fault)


def test_the_command_line_says_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"mothtrap.rules": {"slow_loader": "1 / 0\n", "slow2": ""}})
    listed = CliRunner().invoke(main, ["rules"])
    assert listed.exit_code == 0
    assert listed.stderr.count("warning: rule 'slow") == 2
    looked = CliRunner().invoke(main, ["doctor"])
    assert looked.output.count("their-plugins 1.2") == 2


def test_a_rule_that_is_a_function_may_be_a_plug_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = (
        "import mothtrap\n"
        "@mothtrap.rule('DAT901')\n"
        "def slow_loader(window, *, limit: float = 2.0):\n"
        "    '''The loader is slower than the step.'''\n"
    )
    install(tmp_path, monkeypatch, {"mothtrap.rules": {"slow_loader": short}})
    assert (find_rule("slow_loader").code, left_out()) == ("DAT901", ())
    [rule] = load_rules(Config(select=("DAT901",), rules={"DAT901": {"limit": 3}}))
    assert repr(rule) == "slow_loader(limit=3.0)"
