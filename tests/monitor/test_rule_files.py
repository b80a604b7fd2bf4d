"""Rules in a Python file of the user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.rules.windows import window

from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError
from mothtrap.core.facts.functions import FunctionTraced
from mothtrap.core.findings import RuleState
from mothtrap.monitor.catalogue import (
    explains,
    find_rule,
    left_out_of,
    load_rules,
    rule_classes,
    switched_off,
)
from mothtrap.monitor.rule_files import read_rules, rules_in
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


DUPLICATE = """
@rule("ZZZ902")
def {name}(window):
    return []
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_the_kind", r"file of .*py:1 .*ModuleNotFoundError.*; install that"),
        ("raise SystemExit(3)", r"file of .*py:1 .*SystemExit: 3; a rule must not end the process"),
        ("raise KeyboardInterrupt", r"file of .*py:1 .*KeyboardInterrupt; correct line 1"),
        ("\nx = ", r"file of .*py:2 .*cannot be read: SyntaxError.*; correct line 2"),
        ("x = 1", r"file .*contains no rule; write @mothtrap\.rule\('ACT901'\) above a function"),
        (PLAIN.replace("ZZZ903", "nope"), r"rule nope Anything .*such as ACT901; got 'nope'"),
        (
            PLAIN.replace("    def check", "    limit: int\n    def check"),
            r"write `limit: float = ",
        ),
        (TWO + DUPLICATE.format(name="other"), r"two rules have the code 'ZZZ902'"),
        (TWO + DUPLICATE.format(name="late").replace("2", "5"), r"two rules have the name 'late'"),
    ],
)
def test_what_cannot_be_used_is_left_out_in_one_sentence(written, text: str, message: str) -> None:
    [fault] = read_rules(written(text))[1]
    assert re.search(message, str(fault)), str(fault)
    assert re.match(
        r"(rule|file) .*my_rules\.py:\d+ is left out: .*; the other rules continue$", str(fault)
    )
    assert "\n" not in str(fault)


def test_the_other_rules_of_the_file_are_used(written) -> None:
    broken = TWO + "\n@rule('ZZZ904', severity='fatal')\ndef broken(window):\n    return []\n"
    after = "\n@rule('ZZZ905')\ndef after(window):\n    return []\n"
    rules, [fault] = read_rules(written(broken + after))
    assert [rule.code for rule in rules] == ["ZZZ901", "ZZZ902", "ZZZ905"]
    assert (fault.code, fault.name) == ("ZZZ904", "broken")


def test_rules_below_a_statement_that_raises_are_not_used(written) -> None:
    rules, [fault] = read_rules(written(TWO + "\nimport gone\n" + DUPLICATE.format(name="other")))
    assert [rule.code for rule in rules] == ["ZZZ901", "ZZZ902"]
    assert "no rule below it is used" in fault.reason


def test_ctrl_c_while_a_file_is_run_is_no_fault_of_the_file(written) -> None:
    signal = "import signal\nsignal.raise_signal(signal.SIGINT)\nfor _ in range(9): pass\n"
    with pytest.raises(KeyboardInterrupt):
        read_rules(written(signal))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the rule file .*gone\.py"):
        rules_in(tmp_path / "gone.py")


def test_a_code_or_name_that_is_taken_is_left_out(written) -> None:
    file = written(TWO.replace("ZZZ901", "GRD101").replace("def late", "def dead_units"))
    code, name = left_out_of([file])
    assert (
        "GRD101 is the code of the rule GRD101 exploding_gradient; give it an unused code"
        in str(code)
    )
    assert "such as GRD901" in str(code)
    assert "dead_units is the name of the rule ACT201 dead_units" in str(name)
    assert rule_classes([file]) == rule_classes()


def test_settings_of_a_rule_that_is_left_out_are_no_mistake(written) -> None:
    broken = TWO.replace('"ZZZ901"', '"ZZZ901", severity="fatal"')
    config = Config(rule_files=(written(broken),), rules={"ZZZ901": {"after": 7}}, select=("ZZZ",))
    assert [rule.code for rule in load_rules(config)] == ["ZZZ902"]
    [status] = switched_off(config)
    assert (status.code, status.state) == ("ZZZ901", RuleState.RULE_FAILED)
    assert switched_off(Config(rule_files=config.rule_files, ignore=("ZZZ901",))) == ()


def test_the_documented_examples_are_rules(written) -> None:
    page = (Path(__file__).parents[2] / "docs" / "own-rules.md").read_text(encoding="utf-8")
    examples = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    high = statistic("activation", "abs_max", {"head": [1.0, 2e4]})
    traced = FunctionTraced(step=1, function="step", traces=9, calls=9, location="train.py:3")
    for number, example in enumerate(each for each in examples if "@mothtrap.rule" in each):
        rules, faults = read_rules(written(example, f"example_{number}.py"))
        assert faults == ()
        [rule] = rules
        found = [(f.step, f.layers) for f in rule().check(made(high, traced))]
        assert found == [(1, ("head",) if rule.needs[0].kinds else ())]
    assert number == 2, "one of a function, one of facts, one of a class"
