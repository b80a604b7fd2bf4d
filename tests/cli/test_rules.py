"""`mothtrap rules` and `mothtrap rule`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mothtrap.cli import main
from mothtrap.monitor.catalogue import rule_classes


def test_rules_lists_every_rule_on_one_line() -> None:
    lines = CliRunner().invoke(main, ["rules"]).output.splitlines()
    assert [line.split()[:2] for line in lines] == [[r.code, r.name()] for r in rule_classes()]


def test_rules_as_json_can_be_read_by_a_program() -> None:
    rows = json.loads(CliRunner().invoke(main, ["rules", "--format", "json"]).output)
    assert [row["code"] for row in rows] == [rule.code for rule in rule_classes()]
    assert all(set(row) == {"code", "name", "summary", "explains"} for row in rows)


@pytest.mark.parametrize(
    "word", ["STR701", "str701", "softmax_before_cross_entropy", "softmax-before-cross-entropy"]
)
def test_rule_is_found_by_code_and_by_name(word: str) -> None:
    shown = CliRunner().invoke(main, ["rule", word])
    assert shown.exit_code == 0
    assert shown.output.startswith("STR701 softmax_before_cross_entropy\n")
    assert "What to do" in shown.output
