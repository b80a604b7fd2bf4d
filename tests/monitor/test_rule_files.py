"""Rules in a Python file of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rules.windows import window

from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError
from mothtrap.monitor.catalogue import explains, find_rule, load_rules, rule_classes
from mothtrap.monitor.rule_files import rules_in
from mothtrap.testing.windows import statistic
from mothtrap.testing.windows import window as made

TWO = '''
from __future__ import annotations
import mothtrap
from mothtrap import Found, Rule, Window, rule

@rule("ZZZ902", explains=["loss_diverging"])
def late(window: Window, *, after: int = 5):
    """A step is late."""
    if window.last_step > after:
        return Found(step=after, message="late")

@rule("ZZZ901")
class VeryLate(Rule):
    """A step is very late."""
    after: int = 50
    def check(self, window: Window) -> list:
        return []
'''
PLAIN = '''
from dataclasses import dataclass
from typing import ClassVar
from mothtrap import Rule

@dataclass(frozen=True)
class Anything(Rule):
    """A rule as those of mothtrap are."""
    code: ClassVar[str] = "ZZZ903"
    def check(self, window):
        return []
'''


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str, name: str = "my_rules.py") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_a_file_holds_several_rules(written) -> None:
    file = written(TWO)
    very_late, late = rules_in(file)
    assert (very_late.name(), late.name()) == ("very_late", "late")
    assert late().check(window(steps=3)) == []
    assert [f.step for f in late(after=1).check(window(steps=3))] == [1]
    assert rules_in(file) == (very_late, late), "the file is run once"


def test_a_rule_without_a_name_of_its_own_has_that_of_the_file(written) -> None:
    [rule] = rules_in(written(PLAIN, "slow_loader.py"))
    assert (rule.code, rule.name()) == ("ZZZ903", "slow_loader")


def test_rules_of_a_file_are_in_force_and_take_settings(written) -> None:
    file = written(TWO)
    config = Config(rule_files=(file,), rules={"ZZZ902": {"after": 7}}, select=("ZZZ",))
    assert [repr(rule) for rule in load_rules(config)] == ["VeryLate(after=50)", "late(after=7)"]
    assert find_rule("late", [file]).code == "ZZZ902"
    assert explains(rule_classes([file]))["ZZZ902"] == {"LOS402"}
    assert "ZZZ902" not in {rule.code for rule in rule_classes()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_the_kind", r"cannot be used: ModuleNotFoundError"),
        ("raise SystemExit(3)", r"cannot be used: SystemExit"),
        ("x = ", r"cannot be used: SyntaxError"),
        ("x = 1", r"holds no rule; a rule is made by @mothtrap\.rule"),
        (PLAIN.replace("ZZZ903", "nope"), r"Anything needs a code such as ACT901; has 'nope'"),
        (PLAIN.replace("    def check", "    limit: int\n    def check"), r"needs a default"),
        (TWO.replace("ZZZ902", "ZZZ901"), r"two rules have the code 'ZZZ901'"),
        (
            PLAIN
            + PLAIN.split("@")[1]
            .join(["@", ""])
            .replace("Anything", "Other")
            .replace("ZZZ903", "ZZZ904"),
            r"two rules have the name 'my_rules'",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named(written, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"my_rules\.py: .*{message}"):
        rules_in(written(text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file of rules .*gone\.py"):
        rules_in(tmp_path / "gone.py")


def test_a_code_or_name_that_is_taken_is_an_error(written) -> None:
    code = written(TWO.replace("ZZZ901", "GRD101"))
    with pytest.raises(ConfigError, match="GRD101 is the code of the rule GRD101 exploding"):
        rule_classes([code])
    name = written(TWO.replace("def late", "def dead_units"))
    with pytest.raises(ConfigError, match="that is the name of the rule ACT201 dead_units"):
        rule_classes([name])


def test_the_documented_example_is_a_rule(written) -> None:
    page = (Path(__file__).parents[2] / "docs" / "own-rules.md").read_text(encoding="utf-8")
    [rule] = rules_in(written(page.split("```python\n")[1].split("```")[0]))
    high = statistic("activation", "abs_max", {"head": [1.0, 2e4]})
    assert [(f.step, f.layers) for f in rule().check(made(high))] == [(1, ("head",))]
